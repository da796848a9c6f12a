package unseal_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/unseal"
)

func TestNoFormOfAValueIsRepeated(t *testing.T) {
	const value = "pa\"ss w/rd<é>-long-enough"
	for _, c := range []struct{ message, want string }{
		{"nothing of it", "nothing of it"},
		{"bad value " + value + " here", "bad value *** here"},
		{value, "***"},
		{fmt.Sprintf("Invalid value: %q: no", value), `Invalid value: "***": no`},
		{"in a URL: " + url.QueryEscape(value), "in a URL: ***"},
		{"data: " + encode(value) + ";", "data: ***;"},
		{"cannot unmarshal !!str `" + value[:7] + "...` into int", "cannot unmarshal !!str `***...` into int"},
		{"cut short: " + value[:9] + "…", "cut short: ***…"},
		{"a piece: " + value[8:22] + " of it", "a piece: *** of it"},
		{"line two is second-line", "line two is ***"},
		{"auth: " + encode("bot:"+value+"\n") + ";", "auth: ***;"},
		{"/v1/" + base64.RawURLEncoding.EncodeToString([]byte("{"+value+"}")), "***"},
		{encode(`{"auth":"` + encode("bot:"+value) + `"}`), "***"},
		{encode("bot:somebody-else's") + " stays", encode("bot:somebody-else's") + " stays"},
		{"twice " + value + value, "twice ***"},
		{"yes, 5 and abc stay", "yes, 5 and abc stay"},
	} {
		if got := unseal.Redact(c.message, []string{value, "first-line\nsecond-line\n", "5", "abc", ""}); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.message, got, c.want)
		}
	}
	if got := unseal.Redact("a message", []string{strings.Repeat("x", 2<<20)}); strings.Contains(got, "a message") {
		t.Errorf("%q", got)
	}
	if got := unseal.Redact("as it is", nil); got != "as it is" {
		t.Errorf("%q", got)
	}
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func FuzzRedact(f *testing.F) {
	f.Add("the password is hunter2, they said", "hunter2", "other value")
	f.Add("aaaaaaaaaaaaaaaaaaaaaa", "aaaa", "aaaaaaaaaaaaaaa")
	f.Add("…x...é", "é...", "\xff\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, message, a, b string) {
		got := unseal.Redact(message, []string{a, b})
		for _, value := range []string{a, b} {
			if value = strings.TrimSpace(value); len(value) < 4 || strings.Contains(value, "***") {
				continue
			}
			if rest := strings.ReplaceAll(got, "***", "\x00\x00"); strings.Contains(rest, value) && !strings.Contains(value, "\x00") {
				t.Errorf("%q is in %q", value, got)
			}
		}
	})
}
