package guide

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = "Text, and `plural status` in it.\n\n" +
	"```console\n$ cd fleet\n$ plural up \\\n>   --yes\n...\nhub   http://127.0.0.1:8080\n\n$ plural validate\nerror: it has an error\n```\n\n" +
	"```yaml\n# apps/web.yaml\na: 1\n```\n\n```yaml\n# a remark\n- run: plural deploy --yes\n- run: cd fleet\n```\n\n" +
	"<!-- not run: tests have no kind -->\n\n```console\n$ kind create cluster\n```\n\n```\nplural status\n```\n"

func TestAPageIsReadAsItsReaderWould(t *testing.T) {
	p, err := readPage(sample)
	if err != nil {
		t.Fatal(err)
	}
	want := []step{
		{line: 4, command: "cd fleet"},
		{line: 5, command: "plural up \\\n  --yes", shown: []string{"...", "hub   http://127.0.0.1:8080"}},
		{line: 10, command: "plural validate", shown: []string{"error: it has an error"}},
		{line: 15, file: "apps/web.yaml", content: "a: 1\n"},
		{line: 28, command: "kind create cluster", notRun: "tests have no kind"},
	}
	if diff := cmp.Diff(want, p.steps, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if p.steps[1].fails() || !p.steps[2].fails() {
		t.Error("a command fails when the page shows an error, and only then")
	}
}

func TestNoCommandIsLeftOut(t *testing.T) {
	p, err := readPage(sample)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`"plural deploy --yes" is in a block that is not run`, `"plural status" is in a block that is not run`}
	if diff := cmp.Diff(want, unaccounted(p)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestAReasonIsOfTheBlockRightBelowIt(t *testing.T) {
	for name, text := range map[string]string{
		"no block below":    "<!-- not run: no Docker -->\n\nText.\n",
		"text in between":   "<!-- not run: no Docker -->\nText.\n```console\n$ docker ps\n```\n",
		"nothing below":     "<!-- not run: no Docker -->\n",
		"never closed":      "```console\n$ docker ps\n",
		"output of nothing": "```console\ndocker ps\n```\n",
	} {
		if p, err := readPage(text); err == nil {
			t.Errorf("%s: read as %+v", name, p.steps)
		}
	}
}

func TestWhatIsShownHasToBePrintedInItsOrder(t *testing.T) {
	const printed = "NAME   PHASE\nmgmt   healthy  3s ago\nedge   failed   1/2\ndone at 1a2b3c4 (12.5s)\n"
	for name, tc := range map[string]struct {
		shown []string
		want  string
	}{
		"all of it":            {[]string{"NAME PHASE", "mgmt  healthy  1m ago", "edge failed 1/2", "done at 9f8e7d6 (0.1s)"}, ""},
		"some of it":           {[]string{"...", "edge   failed   1/2"}, ""},
		"the beginning":        {[]string{"mgmt   healthy ..."}, ""},
		"another order":        {[]string{"edge   failed   1/2", "NAME PHASE"}, "NAME PHASE"},
		"something else":       {[]string{"edge   healthy   2/2"}, "edge   healthy   2/2"},
		"part of a line":       {[]string{"edge   failed"}, "edge   failed"},
		"nothing need be said": {nil, ""},
	} {
		if got := missing(tc.shown, printed); got != tc.want {
			t.Errorf("%s: missing %q, want %q", name, got, tc.want)
		}
	}
}
