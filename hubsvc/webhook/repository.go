package webhook

import (
	"net/url"
	"strings"
	"unicode"
)

// SameRepository says whether two URLs, or addresses as ssh takes them (git@host:path), name one repository, whichever
// way each of them gets there: scheme, user, port, the case of the host, a slash at the end and .git count for
// nothing.
func SameRepository(a, b string) bool {
	name := normal(a)
	return name != "" && name == normal(b)
}

// normal is "host/path", or empty for what names no repository.
func normal(address string) string {
	address = strings.TrimSpace(address)
	if len(address) > maxURL || strings.ContainsFunc(address, unicode.IsControl) {
		return ""
	}
	host, path, ok := cutURL(address)
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if !ok || path == "" {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")) + "/" + path
}

func cutURL(address string) (host, path string, ok bool) {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" && u.Scheme != "file" {
			return "", "", false
		}
		return u.Hostname(), u.Path, true
	}
	host, path, ok = strings.Cut(address, ":")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if strings.ContainsAny(host, "/ ") || host == "" {
		return "", "", false
	}
	return host, path, ok
}
