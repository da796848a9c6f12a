package terraform_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/installer/terraform"
)

// state is one of a lineage that has an output which says where it came from.
func state(t *testing.T, lineage string, serial int, from string) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"version": 4, "terraform_version": "1.5.0", "lineage": lineage, "serial": serial, "resources": []any{},
		"outputs": map[string]any{"from": map[string]any{"value": from, "type": "string"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTheNewestStateCounts(t *testing.T) {
	const a, b = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"
	for name, test := range map[string]struct {
		kept, found []byte
		backup      bool
		want, fails string
	}{
		"none":                            {want: ""},
		"only the kept one":               {kept: state(t, a, 3, "kept"), want: "kept"},
		"only the found one":              {found: state(t, a, 3, "found"), want: "found"},
		"the found one is newer":          {kept: state(t, a, 3, "kept"), found: state(t, a, 4, "found"), want: "found"},
		"the kept one is newer":           {kept: state(t, a, 4, "kept"), found: state(t, a, 3, "found"), want: "kept"},
		"both are the same":               {kept: state(t, a, 3, "same"), found: state(t, a, 3, "same"), want: "same"},
		"killed before anything was made": {kept: nil, found: []byte{}, want: ""},
		"they are of other things": {
			kept: state(t, a, 3, "kept"), found: state(t, b, 9, "found"),
			fails: "pick terraform state: the one kept (lineage " + a + ", serial 3) and the one in FILE (lineage " + b + ", serial 9) " +
				"are not of the same things: see which is true, and remove FILE if it is the other",
		},
		"neither followed the other": {
			kept: state(t, a, 3, "kept"), found: state(t, a, 3, "found"),
			fails: "pick terraform state: the one kept (lineage " + a + ", serial 3) and the one in FILE (lineage " + a + ", serial 3) " +
				"differ, and neither followed the other: see which is true, and remove FILE if it is the other",
		},
		"torn": {
			kept: state(t, a, 3, "kept"), found: []byte(`{"version": 4, "lin`),
			fails: "pick terraform state: the one kept (lineage " + a + ", serial 3) and the one in FILE (not readable) cannot be compared: ",
		},
		"emptied": {
			kept: state(t, a, 3, "kept"), found: []byte{}, backup: true,
			fails: "pick terraform state: the one kept (lineage " + a + ", serial 3) and the one in FILE (empty) cannot be compared: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := module(t, "")
			m.State = test.kept
			file := filepath.Join(m.Dir, "module", "terraform.tfstate")
			if test.found != nil {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, test.found, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if test.backup {
				if err := os.WriteFile(file+".backup", test.kept, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			work, err := find(t).Prepare(t.Context(), m, nil)
			if test.fails != "" {
				var unclear *terraform.StateError
				if !errors.As(err, &unclear) || !strings.HasPrefix(strings.ReplaceAll(told(err), file, "FILE"), test.fails) {
					t.Errorf("got  %v\nwant %s", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(file)
			if test.want != "" && (err != nil || !strings.Contains(string(raw), test.want)) {
				t.Errorf("%v: %s is not the state that is %s", err, raw, test.want)
			}
			if test.want == "" && len(raw) > 0 {
				t.Errorf("there is a state: %s", raw)
			}
			if err := work.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestWhatAnEarlierVersionOfTheModuleHadIsGone(t *testing.T) {
	m := module(t, "")
	m.Files = mapped(map[string]string{
		"main.tf": `output "x" { value = 1 }`, "old.tf": `output "old" { value = 1 }`,
		"sub/old.txt": "old",
	})
	m.State = applied(t, m).State
	m.Files = mapped(map[string]string{"main.tf": `output "x" { value = 1 }`})
	want := map[string]terraform.Output{"x": {Value: int64(1)}}
	if diff := cmp.Diff(want, applied(t, m).Outputs); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(m.Dir, "module", "sub")); err == nil {
		t.Error("its folder is still there")
	}
}

func FuzzStates(f *testing.F) {
	f.Add([]byte(`{"version":4,"lineage":"a","serial":1,"outputs":{"x":{"value":1,"sensitive":true}},"resources":[{"instances":[{"attributes":` +
		`{"list":["x"]},"sensitive_attributes":[[{"type":"get_attr","value":"list"},{"type":"index","value":{"value":0,"type":"number"}}]]}]}]}`))
	f.Add([]byte(`{"lineage":"a","resources":[{"instances":[{"attributes":[1],"sensitive_attributes":[[{"value":-1}]]}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		terraform.SecretsOf(raw)
	})
}
