package diff

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/compare"
)

// TestACommentHoldsWhatAForgeTakesAndNoMarkupOfOthers comments on changes whose every text tries to leave its place: to end the code
// that it stands in, to open tags, to call people.
func TestACommentHoldsWhatAForgeTakesAndNoMarkupOfOthers(t *testing.T) {
	const evil = "x` ``` </details> <img src=x> @acme/admins [a](http://b)\n```\n@acme/admins\n</details>"
	large := strings.Repeat("line of text\n", 2_000)
	for _, services := range []int{1, 3, 40, 400} {
		r := &report{Against: evil, Commit: "0123456789abcdef", Clusters: 3, Left: []string{evil}}
		for i := range services {
			name := fmt.Sprintf("%s%d", evil, i)
			change := &compare.Objects(side(name, evil), side(name, evil+large), []byte("key"))[0]
			r.Items = append(r.Items, compare.Group{
				Action: compare.Changed, Objects: []compare.Object{{Service: name, Object: "ConfigMap " + name, Stays: evil}},
				Clusters: []string{"edge-1", evil}, Notes: []string{evil}, Example: change,
			})
			r.Held = append(r.Held, compare.Hold{Service: name, Clusters: []string{evil}, Message: evil, Fix: evil})
			r.Problems = append(r.Problems, problem{Service: name, Clusters: []string{evil}, Where: evil, Message: evil, Fix: evil})
		}
		var b strings.Builder
		if err := commentOn(r).write(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if n := len(text); n > 65_536 {
			t.Errorf("%d services: %d bytes", services, n)
		}
		prose := outsideOfCode(t, text)
		if strings.Contains(prose, "@") || strings.Contains(prose, "<img") || strings.Contains(prose, "](") {
			t.Errorf("%d services: others' texts are markup:\n%.2000s", services, prose)
		}
		if open, ends := strings.Count(prose, "<details>"), strings.Count(prose, "</details>"); open != ends || open == 0 || open > maxFolds {
			t.Errorf("%d services: %d folds begin, %d end", services, open, ends)
		}
		if services > maxFolds && !strings.Contains(prose, fmt.Sprintf("%d services more", services-maxFolds)) {
			t.Errorf("nothing says how many services are left out:\n%s", prose)
		}
	}
}

// side is a rendition with one ConfigMap.
func side(name, value string) compare.Side {
	return compare.Side{Objects: []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"text": value},
	}}}}
}

// outsideOfCode is Markdown without its blocks and spans of code, as CommonMark finds them.
func outsideOfCode(t *testing.T, text string) string {
	t.Helper()
	var prose strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		marks := regexp.MustCompile("^`{3,}").FindString(line)
		switch {
		case fence == "" && marks != "":
			fence = marks
		case fence != "" && strings.TrimSpace(line) == marks && len(marks) >= len(fence):
			fence = ""
		case fence == "":
			prose.WriteString(line)
		}
	}
	if fence != "" {
		t.Error("a block of code has no end")
	}
	text = regexp.MustCompile(`<code>.*?</code>`).ReplaceAllString(prose.String(), "")
	var out strings.Builder
	for text != "" {
		at := strings.IndexByte(text, '`')
		if at < 0 {
			break
		}
		out.WriteString(text[:at])
		text = text[at:]
		run := len(text) - len(strings.TrimLeft(text, "`"))
		end := regexp.MustCompile(fmt.Sprintf("[^`]`{%d}([^`]|$)", run)).FindStringIndex(text[run:])
		if end == nil {
			t.Fatalf("code has no end: %.200s", text)
		}
		text = text[run+end[0]+1+run:]
	}
	return out.String() + text
}
