package terraform

import (
	"os"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
)

func TestFoldersThatNobodyCanWalkAreNoModule(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := unpack(walktest.Bomb{}, root); err == nil || !strings.Contains(err.Error(), "more than 20000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
