package merge

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/test/support/walktest"
)

func TestFoldersThatNobodyCanWalkAreNotMerged(t *testing.T) {
	_, _, err := Folder(fstest.MapFS{}, fstest.MapFS{}, walktest.Bomb{}, Labels{})
	if err == nil || !strings.Contains(err.Error(), "more than 40000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
