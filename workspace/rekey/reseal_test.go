package rekey

import (
	"errors"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace"
)

func TestPlanThatSealsMoreThanFitsIntoACommitIsRefusedWithAWayOut(t *testing.T) {
	p := &Plan{Changes: map[string][]byte{}, size: maxResealed - 1}
	if err := p.replace("secrets/last", []byte("x")); err != nil {
		t.Fatalf("as large as may be: %v", err)
	}
	err := p.replace("secrets/more", []byte("x"))
	var refused *workspace.Error
	const want = `256 MiB together, counted at "secrets/more"`
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, want) || refused.Fix == "" {
		t.Errorf("error is %v", err)
	}
	if len(p.Resealed) != 1 || p.Changes["secrets/more"] != nil {
		t.Errorf("the plan has it all the same: %v", p.Resealed)
	}
}
