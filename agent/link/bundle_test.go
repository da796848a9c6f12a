package link_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/link"
)

// archive is as long as a bundle may well be.
func archive() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	body := make([]byte, 1<<20)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	return body
}

// cutting lets so many bytes of a body through, then breaks the connection.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// plain is a hub whose every answer is a connection of its own.
func plain(t *testing.T, handler http.HandlerFunc) *link.Hub {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	hub, err := link.New(link.Options{URL: server.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

func TestABrokenDownloadGoesOnWhereItStopped(t *testing.T) {
	whole, asked := archive(), []string(nil)
	serve := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Range"))
		w.Header().Set("ETag", `"b1-a"`)
		if len(asked) < 3 {
			w = &cutting{w, 400_000}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
	}
	for name, connect := range map[string]func(*testing.T, http.HandlerFunc) *link.Hub{"HTTP/1.1": plain, "TLS": connect} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			got, err := connect(t, serve).Bundle(t.Context(), "b1-a")
			if err != nil || !bytes.Equal(got, whole) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if diff := cmp.Diff([]string{"", "bytes=400000-", "bytes=800000-"}, asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestABrokenDownloadBeginsAnewWhenItCannotGoOn(t *testing.T) {
	old, whole := archive(), append(archive(), "and more"...)
	for name, second := range map[string]http.HandlerFunc{
		"a proxy knows no ranges": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(whole)
		},
		"the archive is another by now": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b1-b"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
		},
		"a proxy answers another range": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b1-a"`)
			if r.Header.Get("Range") == "" {
				_, _ = w.Write(whole)
				return
			}
			w.Header().Set("Content-Range", "bytes 0-9/"+strconv.Itoa(len(whole)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(whole[:10])
		},
		"a proxy takes a range of another archive": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b1-b"`)
			r.Header.Del("If-Range")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
		},
		"the range is refused": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			_, _ = w.Write(whole)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			hub := plain(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) > 1 {
					second(w, r)
					return
				}
				w.Header().Set("ETag", `"b1-a"`)
				http.ServeContent(&cutting{w, 400_000}, r, "", time.Time{}, bytes.NewReader(old))
			})
			got, err := hub.Bundle(t.Context(), "b1-a")
			if err != nil || !bytes.Equal(got, whole) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func TestWhatNothingNamesIsNotContinued(t *testing.T) {
	for name, etag := range map[string]string{"no ETag": "", "a weak one": `W/"b1-a"`} {
		t.Run(name, func(t *testing.T) {
			var ranges, requests atomic.Int32
			hub := plain(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if r.Header.Get("Range") != "" {
					ranges.Add(1)
				}
				w.Header().Set("ETag", etag)
				http.ServeContent(&cutting{w, 1000}, r, "", time.Time{}, bytes.NewReader(archive()))
			})
			for range 2 {
				if _, err := hub.Bundle(t.Context(), "b1-a"); err == nil || !strings.Contains(err.Error(), "broke off") {
					t.Errorf("Bundle: %v", err)
				}
			}
			if ranges.Load() > 0 || requests.Load() != 2 {
				t.Errorf("%d requests, %d with a range", requests.Load(), ranges.Load())
			}
		})
	}
}

// A hub that cuts every answer is not asked for ever, and what came is there for the next call.
func TestADownloadIsFinishedByALaterCall(t *testing.T) {
	whole := archive()
	var requests, sent atomic.Int64
	var well atomic.Bool
	hub := plain(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("ETag", `"b1-a"`)
		if !well.Load() {
			w = &cutting{w, 10_000}
		} else {
			from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
			sent.Store(int64(len(whole) - from))
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
	})
	if _, err := hub.Bundle(t.Context(), "b1-a"); err == nil || requests.Load() != 10 {
		t.Fatalf("%d requests, %v", requests.Load(), err)
	}
	well.Store(true)
	got, err := hub.Bundle(t.Context(), "b1-a")
	if err != nil || !bytes.Equal(got, whole) || sent.Load() != int64(len(whole)-100_000) {
		t.Errorf("%d bytes, %d of them new, %v", len(got), sent.Load(), err)
	}
}
