package update

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/versions"
)

const (
	sums       = "checksums.txt"
	bundleFile = sums + ".sigstore.json"
	maxSums    = 1 << 20
	maxBundle  = 4 << 20
	maxArchive = 512 << 20
	maxProgram = 512 << 20
)

// Who signs releases: the workflow that makes them, at the tag of the version, as GitHub vouches and sigstore's public log bears out.
const (
	issuer   = "https://token.actions.githubusercontent.com"
	workflow = buildinfo.Project + "/.github/workflows/release.yaml@refs/tags/v"
)

// Home is where releases are.
const Home = buildinfo.Project + "/releases"

// publicTrust is what sigstore's public services are told by.
//
//go:embed trusted_root.json
var publicTrust []byte

// ErrNotOurs means that something is not what the release says.
var ErrNotOurs = errors.New("not of the release")

// Place is where the files of one release are.
type Place struct {
	// Version is the release's.
	Version string
	// From is a folder with the release's files, or a URL that has them at download/vVERSION/NAME. Empty: GitHub's.
	From string
	// Key is a public key in PEM; empty: the release has to be signed by the workflow that makes releases.
	Key []byte
}

// Sums are the digests of what a release consists of, SHA-256 in hex by name. They have been verified.
type Sums map[string]string

// Signer says whose signature is asked for.
func (p *Place) Signer() string {
	if len(p.Key) > 0 {
		return "the key"
	}
	return workflow + p.Version
}

// Sums reads what the release consists of, and verifies that its signer says so. Nothing but the two files is asked for.
func (p *Place) Sums(ctx context.Context) (Sums, error) {
	text, err := p.read(ctx, sums, maxSums)
	if err != nil {
		return nil, err
	}
	bundle, err := p.read(ctx, bundleFile, maxBundle)
	if err != nil {
		return nil, err
	}
	signed, err := p.demand()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	err = signed.Verify(ctx, "sha256:"+hex.EncodeToString(sum[:]), verify.Signatures{Bundles: [][]byte{bundle}})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotOurs, sums, err)
	}
	return ParseSums(text)
}

func (p *Place) demand() (verify.Image, error) {
	if len(p.Key) > 0 {
		keys, err := verify.ParseKeys(p.Key)
		if err != nil {
			return nil, fmt.Errorf("the key: %w", err)
		}
		return keys, nil
	}
	if versions.Parse(p.Version) == nil { // what stands in an identity must not be a pattern
		return nil, fmt.Errorf("%q is no version of a release", p.Version)
	}
	return verify.Keyless{Issuer: issuer, Identity: workflow + p.Version, TrustRoot: publicTrust}.Image()
}

// ParseSums reads a list in the format of sha256sum.
func ParseSums(text []byte) (Sums, error) {
	all := Sums{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if _, err := hex.DecodeString(sum); !ok || err != nil || len(sum) != 64 {
			return nil, fmt.Errorf("%s:%d: want SHA-256 in hex, two blanks, a name", sums, n)
		}
		all[name] = sum
	}
	return all, lines.Err()
}

// called is what a program, or its archive without the ending, is called in a release for this platform.
func called(program, version string) string {
	return fmt.Sprintf("%s_%s_%s_%s", program, version, runtime.GOOS, runtime.GOARCH)
}

// Program verifies that a file is a program of the release, byte for byte, and gives its digest.
func (s Sums) Program(file, program, version string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxProgram)); err != nil {
		return "", err
	}
	got, name := hex.EncodeToString(sum.Sum(nil)), called(program, version)
	switch want := s[name]; want {
	case got:
		return got, nil
	case "":
		return got, fmt.Errorf("%w: it has no %s", ErrNotOurs, name)
	default:
		return got, fmt.Errorf("%w: SHA-256 of %s is %s, and the release's %s is %s", ErrNotOurs, file, got, name, want)
	}
}

// Programs fetches the release's archive for this platform and takes the named programs out of it, each as the release lists it.
func (p *Place) Programs(ctx context.Context, s Sums, names ...string) (map[string][]byte, error) {
	archive := called("plural", p.Version) + ".tar.gz"
	packed, err := p.read(ctx, archive, maxArchive)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != s[archive] {
		return nil, fmt.Errorf("%w: SHA-256 of %s is %x, and the release lists %q", ErrNotOurs, archive, sum, s[archive])
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	found := map[string][]byte{}
	from := tar.NewReader(zip)
	for len(found) < len(names) {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: want the programs %s in it", archive, strings.Join(names, " and "))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		for _, name := range names {
			if header.Name != name || header.Typeflag != tar.TypeReg {
				continue
			}
			if found[name], err = io.ReadAll(io.LimitReader(from, maxProgram)); err != nil {
				return nil, fmt.Errorf("%s: %w", archive, err)
			}
			if sum := sha256.Sum256(found[name]); hex.EncodeToString(sum[:]) != s[called(name, p.Version)] {
				return nil, fmt.Errorf("%w: %s in %s is not what the release lists", ErrNotOurs, name, archive)
			}
		}
	}
	return found, nil
}

// read reads a file of the release.
func (p *Place) read(ctx context.Context, name string, most int64) ([]byte, error) {
	from := p.From
	if from == "" {
		from = Home
	}
	if !strings.Contains(from, "://") {
		return readFile(filepath.Join(from, name), most)
	}
	u, err := httpclient.ParseURL(from, "https", "http")
	if err != nil {
		return nil, err
	}
	return get(ctx, u.JoinPath("download", "v"+p.Version, name), most)
}

func get(ctx context.Context, u *url.URL, most int64) ([]byte, error) {
	client, err := httpclient.Client(httpclient.Options{For: u, MaxBytes: most, OtherHosts: true})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "plural")
	response, err := client.Do(request)
	if err != nil {
		return nil, httpclient.RedactError(err, u, httpclient.Credentials{})
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), fs.ErrNotExist)
	}
	if err := httpclient.CheckStatus(response, httpclient.Credentials{}); err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return text, nil
}

func readFile(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: more than %d bytes", name, most)
	}
	return text, err
}
