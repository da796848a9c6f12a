package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
)

// replyList answers with a page, or that it is what the reader has already. The moment at which it was read is no part of what is compared,
// and goes along in either case: it is where a stream may start.
func replyList[T any](w http.ResponseWriter, r *http.Request, page *v1.List[T]) {
	bare := *page
	bare.Since = ""
	text, err := json.Marshal(&bare)
	since, wrong := json.Marshal(page.Since)
	if err != nil || wrong != nil {
		reply(w, http.StatusOK, page) // which says so
		return
	}
	sum := sha256.Sum256(text)
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	header := w.Header()
	header.Set("ETag", tag)
	header.Set("Cache-Control", "no-store") // nothing of a fleet stays on the disk of a browser
	if page.Since != "" {
		header.Set(v1.SinceHeader, page.Since)
		text = append(append(text[:len(text)-1], `,"since":`...), append(since, '}')...) // the last field
	}
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	say(w, http.StatusOK, packed(w, r, append(text, '\n')))
}

// matches says whether a reader has what a tag stands for. Tags are compared weakly (RFC 9110, section 8.8.3.2).
func matches(had []string, tag string) bool {
	bare := strings.TrimPrefix(tag, "W/")
	for _, line := range had {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimPrefix(strings.TrimSpace(one), "W/") == bare {
				return true
			}
		}
	}
	return false
}
