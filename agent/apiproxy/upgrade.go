package apiproxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// linger is how long a person may go on sending when the API server sends no more.
const linger = 30 * time.Second

// twoWay is a connection each of whose halves ends by itself.
type twoWay interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// upgrade relays a request for another protocol, over a connection that serves nothing else. Only when the API server agrees do
// bytes pass; any other answer is relayed, and ends the connection.
func (h *Handler) upgrade(w http.ResponseWriter, out *http.Request, q kubeaccess.Request) {
	out.Body, out.ContentLength = http.NoBody, 0
	response, ok := h.roundTrip(w, h.fresh, out)
	if !ok {
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		h.answer(w, response, q)
		return
	}
	backend, ok := response.Body.(twoWay)
	if agreed := httpstream.Upgrade(response.Header); !ok || !strings.EqualFold(agreed, httpstream.Upgrade(out.Header)) {
		refuse(w, badGateway("the API server switched to a protocol that was not asked for"))
		return
	}
	header := w.Header()
	for name, values := range response.Header {
		header[name] = values
	}
	w.WriteHeader(response.StatusCode)
	conn, _, err := http.NewResponseController(w).Hijack()
	person, ok := conn.(twoWay)
	if err != nil || !ok {
		panic(http.ErrAbortHandler)
	}
	defer person.Close()
	join(out.Context(), person, backend)
	if out.Context().Err() != nil {
		panic(http.ErrAbortHandler) // what was cut off must not look like an end
	}
}

// join passes bytes both ways until both halves have ended, or ctx ends. An API server that takes no more may still have something
// to say: it is heard to its end.
func join(ctx context.Context, person, backend twoWay) {
	closeBoth := func() {
		person.Close()
		backend.Close()
	}
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = pass(backend, person) // whoever has gone, the other half ends as well
	}()
	if pass(person, backend) != nil {
		closeBoth()
	}
	late := time.AfterFunc(linger, closeBoth)
	defer late.Stop()
	<-sent
}

// pass copies one half, with its end.
func pass(to, from twoWay) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.CloseWrite()
}
