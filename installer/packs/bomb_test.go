package packs

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/compose"
)

func TestFoldersThatNobodyCanWalkAreNotTakenAway(t *testing.T) {
	s := &Snapshot{World: &compose.World{Repo: walktest.Bomb{}}}
	if err := s.takeFiles("web", map[string][]byte{}); err == nil || !strings.Contains(err.Error(), "more than 40000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
