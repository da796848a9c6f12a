package helmrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/pluralsh/plural/internal/httpclient"
)

// maxProvenance bounds a .prov file, in bytes.
const maxProvenance = 1 << 20

// index is what was last read of index.yaml, with what the server needs to hear to say that it is the same.
type index struct {
	charts         map[string]*listing
	wanted         map[string]bool
	etag, modified string
}

// refresh asks for the index, unless it is the one that is known.
func (u *upstream) refresh(ctx context.Context, charts map[string]bool) error {
	at := *u.base
	at.Path += "index.yaml"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return fmt.Errorf("ask for the index: %w", err)
	}
	known := u.index.covers(charts)
	if known && u.index.etag != "" {
		req.Header.Set("If-None-Match", u.index.etag)
	}
	if known && u.index.modified != "" {
		req.Header.Set("If-Modified-Since", u.index.modified)
	}
	res, err := u.client.Do(req)
	if err != nil {
		return readable(&at, err)
	}
	defer res.Body.Close()
	if known && res.StatusCode == http.StatusNotModified {
		return nil
	}
	if err := httpclient.CheckStatus(res, u.shown); err != nil {
		return fmt.Errorf("get %s: %w", place(&at), err)
	}
	next := index{wanted: maps.Clone(charts), etag: res.Header.Get("ETag"), modified: res.Header.Get("Last-Modified")}
	maps.Copy(next.wanted, u.index.wanted)
	if next.charts, err = readIndex(res.Body, next.wanted); err != nil {
		return readable(&at, err)
	}
	u.index = next
	return nil
}

func (i *index) covers(charts map[string]bool) bool {
	for name := range charts {
		if !i.wanted[name] {
			return false
		}
	}
	return true
}

// get reads one file of at most so many bytes.
func (u *upstream) get(ctx context.Context, at *url.URL, most int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	// As it is: some servers declare an archive's own gzip to be the encoding of their answer, and Go would undo it.
	req.Header.Set("Accept-Encoding", "identity")
	res, err := u.client.Do(req)
	if err != nil {
		return nil, readable(at, err)
	}
	defer res.Body.Close()
	if err := httpclient.CheckStatus(res, u.shown); err != nil {
		return nil, fmt.Errorf("get %s: %w", place(at), err)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return nil, readable(at, err)
	case int64(len(data)) > most:
		return nil, readable(at, &httpclient.TooLongError{Max: most})
	}
	return data, nil
}

// readable says what was asked for once, and without what stands behind the path, which may let others in.
func readable(at *url.URL, err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("get %s: %w", place(at), err)
}

func place(at *url.URL) string { return at.Scheme + "://" + at.Host + at.EscapedPath() }
