package local

import (
	"errors"
	"io/fs"
	"testing"

	installer "github.com/pluralsh/plural/installer/local"
)

func TestAProcessThatIsNotThereIsToldWithThoseThatMayBeMeant(t *testing.T) {
	parts := []installer.Part{{Name: "agent-edge-2"}, {Name: "agent-mgmt"}, {Name: "cluster-edge-2"}, {Name: "cluster-mgmt"}, {Name: "hub"}}
	for name, fix := range map[string]string{
		"edge-2":     "did you mean cluster-edge-2 or agent-edge-2? plural local list has all",
		"agent-mgnt": "did you mean agent-mgmt? plural local list has all",
		"database":   "plural local list has all",
	} {
		told := unknown(name, parts, fs.ErrNotExist)
		if told.Msg != `no process "`+name+`"` || told.Cause != "" || told.Fix != fix || !errors.Is(told, fs.ErrNotExist) {
			t.Errorf("%s: %+v", name, told)
		}
	}
}
