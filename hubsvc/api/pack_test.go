package api_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"
)

func TestLongListsAreCompressedForWhoTakesIt(t *testing.T) {
	h := serve(t, 50, nil)
	get := func(path, accepts string) (coding, text string, length int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer bob")
		r.Header.Set("Accept-Encoding", accepts)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s %v", answer.Status, answer.Header)
		}
		count := &counter{Reader: answer.Body}
		coding = answer.Header.Get("Content-Encoding")
		var from io.Reader = count
		if coding == "gzip" {
			if from, err = gzip.NewReader(count); err != nil {
				t.Fatal(err)
			}
		}
		all, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		return coding, string(all), count.n
	}
	_, want, plain := get("/v1/deployments", "identity")
	for accepts, packs := range map[string]bool{
		"gzip, deflate, br, zstd": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip;q=0.000, *": false,
		"br": false, "": false, "gzipped": false, "gzip;q=x": false,
	} {
		coding, text, length := get("/v1/deployments", accepts)
		if text != want || (coding == "gzip") != packs || packs && length > plain/4 {
			t.Errorf("%q: %q, %d bytes of %d", accepts, coding, length, plain)
		}
	}
	if coding, _, _ := get("/v1/deployments?filter=cluster:c001", "gzip"); coding != "" {
		t.Errorf("a short list comes as %s", coding)
	}
}

// counter counts what is read.
type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}
