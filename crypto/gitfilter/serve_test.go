package gitfilter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/gitfilter"
	"github.com/pluralsh/plural/crypto/seal"
)

// upper turns files to upper case, and refuses those that say so.
type upper struct{ explained []string }

func (u *upper) Handle(_ context.Context, r gitfilter.Request) ([]byte, error) {
	if bytes.Equal(r.Content, []byte("refuse")) {
		return nil, errors.New("refused")
	}
	return bytes.ToUpper(r.Content), nil
}

func (u *upper) Explain(path string, err error) {
	u.explained = append(u.explained, path+": "+err.Error())
}

// pkt encodes packets; an empty string ends a list.
func pkt(packets ...string) string {
	var b strings.Builder
	for _, p := range packets {
		if p == "" {
			b.WriteString("0000")
			continue
		}
		fmt.Fprintf(&b, "%04x%s", len(p)+4, p)
	}
	return b.String()
}

func hello() string {
	return pkt("git-filter-client\n", "version=2\n", "", "capability=clean\n", "capability=smudge\n", "capability=delay\n", "")
}

func answer() string {
	return pkt("git-filter-server\n", "version=2\n", "", "capability=clean\n", "capability=smudge\n", "")
}

func TestServeSpeaksGitsProtocol(t *testing.T) {
	long := strings.Repeat("x", 65516)
	for name, tc := range map[string]struct{ in, out string }{
		"nothing": {"", ""},
		"one": {
			pkt("command=clean\n", "pathname=a\n", "", "text", ""),
			pkt("status=success\n", "", "TEXT", "", ""),
		},
		"metadata and a second file": {
			pkt("command=smudge", "pathname=a=b \n", "ref=refs/heads/main\n", "treeish=1\n", "blob=2\n", "can-delay=1\n", "", "te", "xt", "") +
				pkt("command=smudge\n", "pathname=c\n", "", ""),
			pkt("status=success\n", "", "TEXT", "", "") + pkt("status=success\n", "", "", ""),
		},
		"more than a packet": {
			pkt("command=clean\n", "pathname=a\n", "", long, "y", ""),
			pkt("status=success\n", "", strings.ToUpper(long), "Y", "", ""),
		},
		"refused, then not": {
			pkt("command=clean\n", "pathname=a\n", "", "refuse", "", "command=clean\n", "pathname=a\n", "", "x", ""),
			pkt("status=error\n", "") + pkt("status=success\n", "", "X", "", ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := gitfilter.Serve(t.Context(), strings.NewReader(hello()+tc.in), &out, &upper{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answer()+tc.out, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServeStopsWhereItDoesNotUnderstand(t *testing.T) {
	for name, in := range map[string]string{
		"a person types":      "hello\n",
		"nothing":             "",
		"another client":      pkt("git-lfs\n", "version=2\n", ""),
		"another version":     pkt("git-filter-client\n", "version=3\n", ""),
		"end in the greeting": pkt("git-filter-client\n", "version=2\n", ""),
		"bad length":          hello() + "00g0",
		"length of three":     hello() + "0003",
		"length of a giant":   hello() + "ffff" + strings.Repeat("x", 0xffff),
		"half a packet":       hello() + "0020command=",
		"unknown command":     hello() + pkt("command=list_available_blobs\n", ""),
		"no path":             hello() + pkt("command=clean\n", "", "x", ""),
		"end in a file":       hello() + pkt("command=clean\n", "pathname=a\n", "", "x"),
		"endless list":        hello() + pkt(strings.Split(strings.Repeat("a=b,", 100)+"x", ",")...),
	} {
		t.Run(name, func(t *testing.T) {
			if err := gitfilter.Serve(t.Context(), strings.NewReader(in), io.Discard, &upper{}); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestServeReadsPastAFileThatIsTooLarge(t *testing.T) {
	chunk := pkt(strings.Repeat("x", 65516))
	in := hello() + pkt("command=clean\n", "pathname=large\n", "") + strings.Repeat(chunk, seal.MaxFile/65516+1) + pkt("") +
		pkt("command=clean\n", "pathname=small\n", "", "x", "")
	var out bytes.Buffer
	h := &upper{}
	if err := gitfilter.Serve(t.Context(), strings.NewReader(in), &out, h); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(answer()+pkt("status=error\n", "", "status=success\n", "", "X", "", ""), out.String()); diff != "" {
		t.Error(diff)
	}
	if len(h.explained) != 1 || !strings.HasPrefix(h.explained[0], "large: ") {
		t.Errorf("explained %q", h.explained)
	}
}

// FuzzFilterProtocol feeds bytes that git would not send: whatever they are, the answer is what git could read, and each
// file comes back whole or not at all.
func FuzzFilterProtocol(f *testing.F) {
	f.Add([]byte(hello() + pkt("command=clean\n", "pathname=a\n", "", "text", "")))
	f.Add([]byte(hello() + pkt("command=smudge\n", "pathname=a\n", "treeish=1\n", "", "refuse", "", "command=clean\n", "pathname=\n", "", "")))
	f.Add([]byte(hello() + "0004" + "0000" + "FFF0"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		_ = gitfilter.Serve(t.Context(), bytes.NewReader(in), &out, &upper{})
		rest := out.Bytes()
		for len(rest) > 0 {
			var n int
			if _, err := fmt.Sscanf(string(rest[:min(4, len(rest))]), "%04x", &n); err != nil || n > len(rest) || n != 0 && n < 4 {
				t.Fatalf("answer %q is not in packets", rest)
			}
			rest = rest[max(n, 4):]
		}
		if successes := bytes.Count(out.Bytes(), []byte("status=success\n0000")); successes > bytes.Count(in, []byte("command=")) {
			t.Errorf("%d answers to fewer requests", successes)
		}
	})
}
