package packages_test

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/packages"
)

func TestFoldersThatNobodyCanWalkAreNoPackage(t *testing.T) {
	if _, err := packages.Contents(walktest.Bomb{}); err == nil || !strings.Contains(err.Error(), "more than 20000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
