package httpclient

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/netguard"
)

// ParseURL takes the address of an upstream with one of the given schemes, of which http is for this machine only. It
// refuses what another program could take for an option or a command, and hosts of link-local addresses. Its errors show
// no credentials.
func ParseURL(raw string, schemes ...string) (*url.URL, error) {
	refuse := func(reason string) (*url.URL, error) { return nil, fmt.Errorf("URL %q: %s", Redact(raw), reason) }
	if strings.HasPrefix(raw, "-") || strings.ContainsFunc(raw, func(r rune) bool { return r <= 0x20 || r == 0x7f }) {
		return refuse("starts with a dash or holds white space")
	}
	form := "write " + schemes[0] + "://HOST/PATH"
	u, err := url.Parse(raw)
	if err != nil {
		return refuse("not a URL: " + form)
	}
	if !slices.Contains(schemes, u.Scheme) {
		return refuse("unsupported scheme: use " + strings.Join(spoken(schemes), " or "))
	}
	if u.Scheme == "file" {
		return u, nil
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") {
		return refuse("names no usable host: " + form)
	}
	if at, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := (netguard.Policy{Loopback: true}).Check(at); err != nil { // whether loopback is meant, the dialler knows
			return refuse(err.Error())
		}
	}
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
		return refuse("http is for this machine only: use https")
	}
	return u, nil
}

// spoken leaves out what is admitted for tests and trials only.
func spoken(schemes []string) []string {
	return slices.DeleteFunc(slices.Clone(schemes), func(s string) bool { return s == "http" || s == "file" })
}

// Loopback says whether a host name is surely this machine's own.
func Loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// SameHost compares scheme, host and port, by whatever spelling.
func SameHost(a, b *url.URL) bool {
	return a != nil && b != nil && strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"https": "443", "http": "80", "ssh": "22", "oci": "443"}[strings.ToLower(u.Scheme)]
}
