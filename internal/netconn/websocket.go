package netconn

import (
	"context"
	"errors"
	"io"

	"github.com/coder/websocket"
)

// WebSocket is the stream of what a WebSocket's binary messages carry. Where one message ends and the next begins is lost.
// Its Close ends the connection without the closing handshake: who is not there any more cannot shake hands.
func WebSocket(ws *websocket.Conn) io.ReadWriteCloser {
	ws.SetReadLimit(-1) // messages are never held whole
	return &socket{ws: ws}
}

type socket struct {
	ws      *websocket.Conn
	message io.Reader // nil between messages
}

var errText = errors.New("a websocket message is not binary")

func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.message == nil {
			kind, message, err := s.ws.Reader(context.Background())
			if err != nil {
				return 0, ended(err)
			}
			if kind != websocket.MessageBinary {
				return 0, errText
			}
			s.message = message
		}
		n, err := s.message.Read(p)
		if errors.Is(err, io.EOF) {
			s.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// ended makes a plain end of one that the other side announced.
func ended(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway:
		return io.EOF
	default:
		return err
	}
}

func (s *socket) Write(p []byte) (int, error) {
	if err := s.ws.Write(context.Background(), websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *socket) Close() error { return s.ws.CloseNow() }
