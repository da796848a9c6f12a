package apply_test

import (
	"testing"

	"github.com/pluralsh/plural/agent/apply"
)

func TestADiffTellsNothingOfAnotherServicesObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(configMap("settings", "of-the-owner"))
	other := w.request(configMap("settings", "x"))
	other.Service = w.service + "-b"
	changes, err := w.engine.Diff(t.Context(), other)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%+v, %v", changes, err)
	}
	c := changes[0]
	if c.Action != apply.Failed || c.Err == nil || c.Err.Reason != apply.Conflict || c.Before != nil || c.After != nil {
		t.Errorf("%s, %v, before %v, after %v", c.Action, c.Err, c.Before, c.After)
	}

	changes, err = w.engine.Diff(t.Context(), w.request(configMap("settings", "other")))
	if err != nil || len(changes) != 1 || changes[0].Action != apply.Configured || changes[0].Before == nil {
		t.Errorf("the owner's own: %+v, %v", changes, err)
	}
}
