package apiproxy

import (
	"errors"
	"io"
	"net/http"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// exchange relays one request with its answer.
func (h *Handler) exchange(w http.ResponseWriter, by http.RoundTripper, out *http.Request, q kubeaccess.Request) {
	response, ok := h.roundTrip(w, by, out)
	if !ok {
		return
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		refuse(w, badGateway("the API server switched to a protocol that was not asked for"))
	default:
		h.answer(w, response, q)
	}
}

// answer relays what the API server says, unless it speaks of the agent.
func (h *Handler) answer(w http.ResponseWriter, response *http.Response, q kubeaccess.Request) {
	if response.StatusCode == http.StatusUnauthorized && q.Subresource != "proxy" {
		// It is the agent's account that was refused: telling the person would have them log in again.
		h.log.Error("the API server does not know the account that people's requests are made with")
		refuse(w, unavailable("the API server refused the agent's own account: see the agent's log"))
		return
	}
	h.relay(w, response)
}

func (h *Handler) roundTrip(w http.ResponseWriter, t http.RoundTripper, out *http.Request) (*http.Response, bool) {
	response, err := t.RoundTrip(out)
	if err == nil {
		return response, true
	}
	if out.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	call, _ := httpstream.CallOf(out.Context())
	h.log.Warn("a person's request did not reach the API server", "request_id", call.ID, "error", err)
	refuse(w, unavailable("the agent could not reach its API server: see the agent's log"))
	return nil, false
}

// relay sends an answer on. One whose length is not known is not held back, for it may be a watch, unless it is that to a
// question: what of it fits into one message is one.
func (h *Handler) relay(w http.ResponseWriter, response *http.Response) {
	header := w.Header()
	for name, values := range response.Header {
		header[name] = values
	}
	w.WriteHeader(response.StatusCode)
	at := http.NewResponseController(w)
	_, whole := response.Body.(*quickBody)
	streaming := response.ContentLength < 0 && !whole
	if streaming && at.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	if err := h.copy(w, response.Body, at, streaming); err != nil {
		panic(http.ErrAbortHandler) // a part must not look like the whole
	}
	for name, values := range response.Trailer {
		header[http.TrailerPrefix+name] = values
	}
}

func (h *Handler) copy(w io.Writer, body io.Reader, at *http.ResponseController, streaming bool) error {
	buffer, ok := h.buffers.Get().(*[tunnelapi.MaxData]byte)
	if !ok {
		return errors.ErrUnsupported
	}
	defer h.buffers.Put(buffer)
	for {
		n, err := body.Read(buffer[:])
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if streaming {
				if err := at.Flush(); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
