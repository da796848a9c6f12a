package servicetest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestAJobsNameTellsServiceTestAndKeyAndFits(t *testing.T) {
	const key = "0123456789abcdef"
	if got := jobName("web", "smoke", key); got != "plural-test-web-smoke-01234567" {
		t.Errorf("name %q", got)
	}
	seen := map[string]string{}
	for _, parts := range [][3]string{
		{strings.Repeat("a", 63), "smoke", key},
		{strings.Repeat("a", 63), "suite", key},
		{"web", strings.Repeat("b", 63), key},
		{"web", "Smoke Test!", key},
		{"web", "smoke test ", key},
		{"web", "", key},
		{"web", "smoke", ""},
		{"web", "smoke", "not hex"},
		{"web", "é", key},
	} {
		name := jobName(parts[0], parts[1], parts[2])
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || !strings.HasPrefix(name, "plural-test-") {
			t.Errorf("%q: %q: %v", parts, name, problems)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q is the name of %s too", name, other)
		}
		seen[name] = strings.Join(parts[:], "/")
	}
}

func TestAnExcerptHasNoPieceOfWhatIsMasked(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	target := Target{Mask: strings.NewReplacer(secret+"\n", "", secret, "***").Replace}
	for name, log := range map[string]string{
		"cut for the result": secret + strings.Repeat(".", 100-len(secret)),
		"cut to be masked":   strings.Repeat(secret+"\n", 1+maxMasked/(len(secret)+1)),
	} {
		for at := range len(secret) {
			if got := target.excerpt(log+strings.Repeat(".", at), false, 100); len(got) > 100 || strings.Contains(got, "p") {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	for name, log := range map[string]string{
		"cut where it was read": "all is well\n",
		"cut on a long line":    "all is well" + strings.Repeat(".", maxBegun),
	} {
		for at := range len(secret) {
			got := target.excerpt(log+secret[:at], true, len(log))
			if !strings.HasPrefix(log, got) || !strings.HasPrefix(got, "all is well") {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

func FuzzATailIsTheEndInWholeCharacters(f *testing.F) {
	f.Add("the end", 3)
	f.Add("éé\xff", 2)
	f.Fuzz(func(t *testing.T, log string, most int) {
		if most < 3 || most > 1<<16 {
			return // no input that the property speaks of
		}
		end := tail(log, most)
		if len(end) > most || !utf8.ValidString(end) || !strings.HasSuffix(strings.ToValidUTF8(log, "\uFFFD"), end) {
			t.Errorf("%q of %q", end, log)
		}
	})
}
