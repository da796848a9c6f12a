package cmdutil_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// closed is an address at which nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAFailureOfTheNetworkIsToldAsOneWithItsPlaceAndFix(t *testing.T) {
	proxy, err := url.Parse("http://" + closed(t))
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, tt := range map[string]struct{ address, proxy, msg, fix string }{
		"refused":             {"http://" + closed(t), "", "nothing listens there", "see that it runs"},
		"no name":             {"http://nosuch.invalid", "", "nobody knows the name nosuch.invalid", "getent hosts nosuch.invalid"},
		"silent":              {"http://" + silent.Addr().String(), "", "no answer came in time", "a firewall, a proxy"},
		"authority":           {secure.URL, "", "does not trust", "PLURAL_CA_FILE"},
		"no TLS":              {strings.Replace(plain.URL, "http:", "https:", 1), "", "it does not speak TLS there", "http://"},
		"dead proxy":          {"https://example.com", proxy.String(), "the proxy does not answer", "NO_PROXY"},
		"hub by a dead proxy": {"https://example.com", "hub", "the proxy does not answer", "NO_PROXY"},
		"hub refused":         {"http://" + closed(t), "hub", "cannot reach the hub at http://127.0.0.1", "see that it runs"},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{}
			if tt.proxy == proxy.String() || strings.HasPrefix(tt.address, "https://example.com") {
				transport.Proxy = http.ProxyURL(proxy)
			}
			_, err := (&http.Client{Transport: transport, Timeout: time.Second}).Get(tt.address)
			if err == nil {
				t.Fatal("it was reached")
			}
			if tt.proxy == "hub" {
				err = &client.Unreachable{Hub: tt.address, Err: err}
			}
			var told *ui.Err
			if !errors.As(cmdutil.Explain(fmt.Errorf("read index: %w", err)), &told) {
				t.Fatalf("it is taken for a mistake of the program: %v", err)
			}
			if !strings.Contains(told.Msg, tt.msg) || !strings.Contains(told.Fix, tt.fix) || strings.Contains(told.Msg+told.Cause+told.Fix, `\n`) {
				t.Errorf("%+v", told)
			}
		})
	}
}
