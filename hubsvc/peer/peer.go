// Package peer owns the protocol between the replicas of one hub.
//
// It decides nothing: who owns what, and what a bundle's key stands for, is asked of functions. A replica that follows
// a repository gets the owner's manifest (GET /peer/v1/repos/{id}, conditional by ETag), then the packs that it lacks,
// newest first (GET /peer/v1/repos/{id}/packs/{name}, in ranges); [Client.Upstream] does so for a mirror. A bundle
// comes by its key (GET /peer/v1/bundles/{key}) with the digest of its bytes. What a replica's audit log answers
// (GET /peer/v1/audit/{what}?q=QUESTION) is passed through. Both ends show a certificate of the
// replicas' own authority; without certificates they speak on the loopback interface alone.
package peer

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pluralsh/plural/workspace/mirror"
)

// Options are what a replica shows the others.
type Options struct {
	// Repo gives a repository by its id; false while this replica does not hold it.
	Repo func(id string) (Repo, bool)
	// Bundle opens a bundle on this replica's disk, or packs it: it must not ask a peer. The digest is the SHA-256 of
	// the bytes in hex, as taken when they were packed. The error is fs.ErrNotExist when the key means nothing here.
	Bundle func(ctx context.Context, key string) (body io.ReadSeekCloser, digest string, err error)
	// Audit answers about this replica's audit log: the path's value "what" and the query's "q" say what. May be nil.
	Audit http.HandlerFunc
}

// Repo is one repository's mirror as the other replicas see it.
type Repo interface {
	Manifest() mirror.Manifest
	// OpenPack gives fs.ErrNotExist when the pack is gone.
	OpenPack(name string) (*os.File, error)
	// Note is what the owner says of the upstream: JSON that is passed through, or nil.
	Note() json.RawMessage
}

// state is the answer about a repository.
type state struct {
	Manifest mirror.Manifest `json:"manifest"`
	Note     json.RawMessage `json:"note,omitempty"`
}

// paths, which the client fills in
const (
	repoPath   = "/peer/v1/repos/"
	packsPart  = "/packs/"
	bundlePath = "/peer/v1/bundles/"
	auditPath  = "/peer/v1/audit/"
)

// digestHeader is that of RFC 9530.
const digestHeader = "Repr-Digest"

// Handler answers the other replicas, and nobody else: it refuses whoever came with no verified certificate, but for
// plain HTTP over the loopback interface.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+repoPath+"{id}", o.repo)
	mux.HandleFunc("GET "+repoPath+"{id}"+packsPart+"{name}", o.pack)
	mux.HandleFunc("GET "+bundlePath+"{key}", o.bundle)
	if o.Audit != nil {
		mux.HandleFunc("GET "+auditPath+"{what}", o.Audit)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admitted(r) {
			http.Error(w, "only replicas of this hub are served here", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// NewServer returns a server of [Handler] for the replicas' own listener. With certificates, the configuration must
// name the authority (ClientCAs) that signed the other replicas'; the system's authorities are never taken for it.
func NewServer(o Options, certificates *tls.Config) (*http.Server, error) {
	if certificates != nil {
		if certificates.ClientCAs == nil {
			return nil, errors.New("serve peers: no authority is named that signed the replicas' certificates")
		}
		certificates = certificates.Clone()
		certificates.ClientAuth = tls.RequireAndVerifyClientCert
		certificates.MinVersion = tls.VersionTLS13
	}
	return &http.Server{
		Handler:           Handler(o),
		TLSConfig:         certificates,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      15 * time.Minute, // for a pack of the largest size, at 600 KB/s
		IdleTimeout:       2 * idleTime,     // the client lets go first
		MaxHeaderBytes:    16 << 10,
	}, nil
}

func admitted(r *http.Request) bool {
	if r.TLS != nil {
		return len(r.TLS.VerifiedChains) > 0
	}
	return loopback(r.RemoteAddr)
}

// loopback says whether an address of the form host:port is this machine's own.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (o Options) repo(w http.ResponseWriter, r *http.Request) {
	repo, ok := o.Repo(r.PathValue("id"))
	if !ok {
		http.Error(w, "this replica does not hold the repository", http.StatusNotFound)
		return
	}
	body, err := json.Marshal(state{repo.Manifest(), repo.Note()})
	if err != nil {
		http.Error(w, fmt.Sprintf("write manifest: %v", err), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:16]) + `"`
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (o Options) pack(w http.ResponseWriter, r *http.Request) {
	repo, ok := o.Repo(r.PathValue("id"))
	if !ok {
		http.Error(w, "this replica does not hold the repository", http.StatusNotFound)
		return
	}
	name := r.PathValue("name")
	pack, err := repo.OpenPack(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "the pack is gone", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, fmt.Sprintf("open pack: %v", err), http.StatusServiceUnavailable)
		return
	}
	defer pack.Close()
	serve(w, r, url.PathEscape(name), pack)
}

func (o Options) bundle(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	body, digest, err := o.Bundle(r.Context(), key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "no such bundle", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, fmt.Sprintf("open bundle: %v", err), http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = body.Close() }()
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		http.Error(w, "the bundle has no digest", http.StatusInternalServerError)
		return
	}
	w.Header().Set(digestHeader, "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	serve(w, r, key, body)
}

// serve sends a file that never changes under its name, whole or a range of it.
func serve(w http.ResponseWriter, r *http.Request, name string, file io.ReadSeeker) {
	w.Header().Set("ETag", `"`+name+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, file)
}

// parseDigest reads what bundle wrote.
func parseDigest(header string) ([]byte, error) {
	text, ok := strings.CutPrefix(header, "sha-256=:")
	text, end := strings.CutSuffix(text, ":")
	sum, err := base64.StdEncoding.DecodeString(text)
	if !ok || !end || err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%s %.100q is no SHA-256", digestHeader, header)
	}
	return sum, nil
}
