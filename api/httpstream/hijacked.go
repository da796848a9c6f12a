package httpstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// hijacked is an upgraded connection, as the handler sees it.
type hijacked struct {
	reply *reply
	// arrived hands over what the hub's half brings; readErr is set before it is closed.
	arrived chan []byte
	readErr error
	rest    []byte
	// closed is closed by Close.
	closed chan struct{}
	once   sync.Once
	// writing guards the agent's half of the stream.
	writing sync.Mutex
	// head collects the text of the answer's head, until it is whole; nil after that.
	head []byte
	// shut says that the last frame has gone out.
	shut bool
}

func newHijacked(w *reply) *hijacked {
	c := &hijacked{reply: w, arrived: make(chan []byte), closed: make(chan struct{})}
	if w.status == 0 {
		c.head = make([]byte, 0, 512)
	}
	go c.receive() // ends with the stream, which ends with the handler
	return c
}

func (c *hijacked) receive() {
	defer close(c.arrived)
	body := c.reply.body
	for {
		if len(body.rest) > 0 {
			select {
			case c.arrived <- body.rest:
				body.rest = nil
			case <-c.closed:
				c.readErr = net.ErrClosed
				return
			}
		}
		if c.readErr = body.next(); c.readErr != nil {
			return
		}
	}
}

func (c *hijacked) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		select {
		case data, ok := <-c.arrived:
			if !ok {
				return 0, c.readErr
			}
			c.rest = data
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *hijacked) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	if c.shut {
		return 0, io.ErrClosedPipe
	}
	data := p
	if c.head != nil {
		var err error
		if data, err = c.collect(p); err != nil {
			return 0, err
		}
	}
	for chunk := range chunks(data) {
		if c.reply.send(&tunnelapi.Frame{Data: chunk}); c.reply.failed != nil {
			return 0, c.reply.failed
		}
	}
	return len(p), nil
}

// collect reads the answer's head, as text; the rest is data.
func (c *hijacked) collect(p []byte) ([]byte, error) {
	w := c.reply
	if len(c.head)+len(p) > 2*tunnelapi.MaxHeaders {
		w.fail("its head is too long")
		return nil, w.failed
	}
	c.head = append(c.head, p...)
	end := bytes.Index(c.head, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, nil
	}
	text, data := c.head[:end+4], c.head[end+4:]
	c.head = nil
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), w.request)
	if err != nil {
		w.fail(err.Error())
		return nil, w.failed
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		w.fail("a hijacked connection answers with " + response.Status)
		return nil, w.failed
	}
	headers, err := Response(response.Header)
	if err != nil {
		return nil, err
	}
	w.status = response.StatusCode
	w.head = &tunnelapi.ResponseHead{Status: int32(w.status), Headers: headers, ContentLength: -1}
	w.switchProtocols(response.Header)
	return data, w.failed
}

// CloseWrite says that nothing more will be written; reading goes on.
func (c *hijacked) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.shut {
		return nil
	}
	if c.head != nil {
		return &Error{Code: codes.Internal, Message: "the connection ended before it was upgraded"}
	}
	c.shut = true
	c.reply.send(&tunnelapi.Frame{Trailer: &tunnelapi.Trailer{}})
	return c.reply.failed
}

// Close ends reading and writing. What was written still arrives.
func (c *hijacked) Close() error {
	c.end()
	return nil
}

func (c *hijacked) end() { c.once.Do(func() { close(c.closed) }) }

// finish follows the handler.
func (c *hijacked) finish() error {
	c.end()
	if err := c.reply.failed; err != nil {
		return err
	}
	return c.CloseWrite()
}

func (c *hijacked) LocalAddr() net.Addr  { return address{} }
func (c *hijacked) RemoteAddr() net.Addr { return address{} }

func (c *hijacked) SetDeadline(t time.Time) error      { return unlessDeadline(t) }
func (c *hijacked) SetReadDeadline(t time.Time) error  { return unlessDeadline(t) }
func (c *hijacked) SetWriteDeadline(t time.Time) error { return unlessDeadline(t) }

func unlessDeadline(t time.Time) error {
	if errors.Is(noDeadline(t), errors.ErrUnsupported) {
		return os.ErrNoDeadline
	}
	return nil
}

// address is that of a connection which has none of its own.
type address struct{}

func (address) Network() string { return "channel" }
func (address) String() string  { return "channel" }
