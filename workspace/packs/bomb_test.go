package packs

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
)

func TestFoldersThatNobodyCanWalkAreNotTakenAway(t *testing.T) {
	s := &Snapshot{World: &compose.World{Fleet: new(fleet.Fleet), Repo: walktest.Bomb{}}}
	if err := s.takeFiles("web", map[string][]byte{}); err == nil || !strings.Contains(err.Error(), "more than 40000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
