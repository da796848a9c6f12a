package doctor

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/doctor"
)

func TestTheScreenTellsCauseAndFixBelowWhatIsNotAsItShouldBe(t *testing.T) {
	finding := func(group, name string, r doctor.Result) doctor.Finding {
		return doctor.Finding{Group: group, Name: name, Result: r}
	}
	r := &report{Total: 4, Failed: 1, Warnings: 1, Items: []doctor.Finding{
		finding("git", "version", doctor.Result{State: doctor.OK, Text: "git 2.39.5"}),
		finding("git", "remote", doctor.Result{State: doctor.Fail, Text: "it cannot be asked", Cause: "fatal:\x1b[31m no\nsuch host", Fix: "git ls-remote origin"}),
		finding("hub", "clock", doctor.Result{State: doctor.Warn, Text: "it is 3s ahead", Fix: "let NTP set it"}),
		finding("hub", "agents", doctor.Result{State: doctor.Skipped, Text: "the hub cannot be reached"}),
	}}
	var out bytes.Buffer
	o := &options{f: &cmdutil.Factory{IO: &ui.Streams{OutTTY: true, Width: 80}}}
	if err := o.screen(&out, r); err != nil {
		t.Fatal(err)
	}
	want := `git
  ✓ version  git 2.39.5
  ✗ remote   it cannot be asked
      cause: fatal:\x1b[31m no such host
      fix:   git ls-remote origin
hub
  ! clock    it is 3s ahead
      fix:   let NTP set it
  - agents   the hub cannot be reached

1 failed, 1 with a warning, 2 without
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
