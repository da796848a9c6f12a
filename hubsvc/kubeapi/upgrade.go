package kubeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// halves is a connection whose two directions end by themselves.
type halves interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// upgrade joins the client's connection with the cluster's, now that the cluster has agreed, until both directions have ended.
func (s *session) upgrade(ctx context.Context, resp *http.Response) error {
	cluster, ok := resp.Body.(halves)
	if !ok {
		return s.stuck(errors.New("the cluster's connection goes one way only"))
	}
	client, from, err := s.hijack()
	if err != nil {
		return s.stuck(err)
	}
	defer func() { _ = client.Close() }() // it has ended, one way or another
	if err := s.switching(client, resp); err != nil {
		return errors.Join(errGone, err)
	}
	return s.join(ctx, client, from, cluster)
}

// stuck answers a client whose connection cannot become what it asked for.
func (s *session) stuck(err error) error {
	s.p.Log.Error("connection cannot be taken over", "request", s.id, "error", err)
	s.record.Status = http.StatusInternalServerError
	s.w.Header().Set("Connection", "close")
	writeStatus(s.w, refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, "the hub cannot take over the connection"))
	return err
}

// hijack takes the client's connection from the server. What the client has sent already is read first.
func (s *session) hijack() (net.Conn, io.Reader, error) {
	conn, buffered, err := s.rc.Hijack()
	if err != nil {
		return nil, nil, err
	}
	early := make([]byte, buffered.Reader.Buffered())
	_, err = io.ReadFull(buffered.Reader, early)
	if err := errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, io.MultiReader(bytes.NewReader(early), conn), nil
}

// switching writes the head of the answer.
func (s *session) switching(client net.Conn, resp *http.Response) error {
	h := answer(resp.Header, Prefix+s.cluster)
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
	if err := h.Write(&head); err != nil {
		return err
	}
	head.WriteString("\r\n")
	_, err := client.Write(head.Bytes())
	return err
}

// join passes bytes on in both directions. The end of one is passed on as such, and the other may go on for as long as
// something comes; an error ends both.
func (s *session) join(ctx context.Context, client net.Conn, from io.Reader, cluster halves) error {
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close() // what waits on it learns more
		cluster.Close()
	})
	defer stop()
	l := &lingering{patience: s.p.Limits.HalfClosed, end: func() { s.cancel(errHalfClosed) }}
	defer l.stop()
	var both sync.WaitGroup
	half := func(pass func() error, broken error) {
		both.Go(func() {
			if err := pass(); err != nil {
				s.cancel(errors.Join(broken, err))
				return
			}
			l.start()
		})
	}
	half(func() error {
		err := errors.Join(s.pass(cluster, from, &s.in, l), cluster.CloseWrite())
		if errors.Is(err, io.ErrClosedPipe) {
			return nil // the cluster has ended, and its last words are on their way
		}
		return err
	}, errGone)
	half(func() error {
		return errors.Join(s.pass(client, cluster, &s.out, l), closeWrite(client))
	}, errBroken)
	both.Wait()
	return cause(ctx, nil)
}

// lingering is the time that is left to a connection of which one half has ended.
type lingering struct {
	patience time.Duration
	end      func()
	mu       sync.Mutex  // guards timer
	timer    *time.Timer // nil while both halves are open
}

func (l *lingering) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer = time.AfterFunc(l.patience, l.end)
	}
}

// moved says that something came.
func (l *lingering) moved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Reset(l.patience)
	}
}

func (l *lingering) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// pass copies one direction to its end.
func (s *session) pass(to io.Writer, from io.Reader, count *atomic.Int64, l *lingering) error {
	buffer := s.p.buffers.Get().(*[tunnelapi.MaxData]byte) //nolint:forcetypeassert // the pool has nothing else
	defer s.p.buffers.Put(buffer)
	for {
		n, err := from.Read(buffer[:])
		if n > 0 {
			l.moved()
			written, err := to.Write(buffer[:n])
			count.Add(int64(written))
			if err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// closeWrite ends what a client hears, as TCP and TLS do it; elsewhere the end of the connection has to say it.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
