package faultproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refuse answers with a status, as an API server does, and asks nobody.
func Refuse(status metav1.Status) Fault {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
		}
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status) // who asked may be gone
	}
}

// Answer answers with any text, and asks nobody.
func Answer(code int, contentType, body string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// Hang never answers: it lasts until the client gives up.
func Hang() Fault {
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
}

// Delay lets the request through later.
func Delay(by time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
}

// Reset breaks the connection before the server has heard of the request.
func Reset() Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { reset(w) }
}

// Lose lets the server do what it is asked, and breaks the connection instead of telling its answer.
func Lose() Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(newRecorder(), r)
		reset(w)
	}
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // what follows is a reset, not an orderly end
	}
	_ = conn.Close()
}

// BreakAfter passes on so many bytes of the answer, and breaks the connection then.
func BreakAfter(size int) Fault {
	return spoil(func(w http.ResponseWriter, body []byte) {
		_, _ = w.Write(body[:min(size, len(body))])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// Truncate passes on so many bytes of the answer as if they were all of it.
func Truncate(size int) Fault {
	return spoil(func(w http.ResponseWriter, body []byte) { _, _ = w.Write(body[:min(size, len(body))]) })
}

// Trickle passes the answer on in ten pieces, with a pause before each.
func Trickle(pause time.Duration) Fault {
	return spoil(func(w http.ResponseWriter, body []byte) {
		piece := len(body)/10 + 1
		_ = http.NewResponseController(w).Flush()
		for len(body) > 0 {
			timer := time.NewTimer(pause)
			<-timer.C
			n := min(piece, len(body))
			if _, err := w.Write(body[:n]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			body = body[n:]
		}
	})
}

// spoil tells what to do with the server's answer.
func spoil(tell func(w http.ResponseWriter, body []byte)) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := newRecorder()
		r.Header.Del("Accept-Encoding")
		next.ServeHTTP(answer, r)
		answer.head(w)
		tell(w, answer.body.Bytes())
	}
}

// Stale answers each request as it was answered the first time, as a server does whose cache has fallen behind.
func Stale() Fault {
	var mu sync.Mutex // guards first
	first := map[string]*recorder{}
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		key := r.Method + r.URL.RequestURI() + r.Header.Get("Accept")
		mu.Lock()
		defer mu.Unlock()
		if first[key] == nil {
			first[key] = newRecorder()
			r.Header.Del("Accept-Encoding")
			next.ServeHTTP(first[key], r)
		}
		first[key].head(w)
		_, _ = w.Write(first[key].body.Bytes())
	}
}

// Expire ends a watch at once with the word that its resource version is too old.
func Expire() Fault {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "too old resource version: 1 (2)",
	}
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": status})
	}
}

// Cut ends a watch after a time.
func Cut(after time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ctx, cancel := context.WithTimeout(r.Context(), after)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	}
}

// Silence lets a watch begin, tells nothing of what it sees, and ends it after a time.
func Silence(after time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
}

// recorder keeps an answer.
type recorder struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{code: http.StatusOK, header: http.Header{}} }

// Header is the answer's.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the code.
func (r *recorder) WriteHeader(code int) { r.code = code }

// Write keeps a part of the body.
func (r *recorder) Write(part []byte) (int, error) { return r.body.Write(part) }

// head tells all of the answer but its body, whose length is no longer known.
func (r *recorder) head(w http.ResponseWriter) {
	for name, values := range r.header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(r.code)
}
