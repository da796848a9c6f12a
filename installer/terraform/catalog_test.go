package terraform_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/packages"
)

// clusters are the packages that make clusters, with the least that a person answers and with much.
var clusters = map[string]struct {
	provider    string
	least, much map[string]any
}{
	"cluster-aws": {
		"aws",
		map[string]any{"region": "eu-central-1"},
		map[string]any{
			"name": "big", "region": "us-gov-west-1", "version": "1.34", "zones": 2, "natPerZone": true, "nodeArch": "arm64", "nodeType": "m7g.large",
			"apiFrom": []any{"203.0.113.0/24"}, "admins": []any{"arn:aws:iam::123456789012:role/admin"}, "nodeMin": 3, "nodeMax": 9,
			"tags": map[string]any{"team": "${not} an \"expression\""},
		},
	},
	"cluster-gcp": {
		"google",
		map[string]any{"region": "europe-west3", "project": "some-project"},
		map[string]any{
			"region": "europe-west3", "project": "some-project", "version": "1.34", "channel": "STABLE", "deletionProtection": false,
			"apiFrom": []any{"203.0.113.0/24", "198.51.100.7/32"}, "secretsKey": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
			"labels": map[string]any{"team": "platform"},
		},
	},
	"cluster-azure": {
		"azurerm",
		map[string]any{"region": "westeurope", "subscription": "01234567-89ab-cdef-0123-456789abcdef"},
		map[string]any{
			"region": "westeurope", "subscription": "01234567-89ab-cdef-0123-456789abcdef", "version": "1.34", "zones": []any{},
			"apiFrom": []any{"203.0.113.0/24"}, "admins": []any{"01234567-89ab-cdef-0123-456789abcdef"}, "hostEncryption": true,
		},
	},
}

func TestPackagesOfClustersPlanAndApply(t *testing.T) {
	for name, c := range clusters {
		for how, given := range map[string]map[string]any{"with the least answers": c.least, "with many answers": c.much} {
			t.Run(name+" "+how, func(t *testing.T) {
				files := folder(t, name)
				p, err := packages.Load(files)
				if err != nil {
					t.Fatal(err)
				}
				m := recorded(t, c.provider, p, files)
				m.Inputs = inputs(t, p, given)
				log := &lines{}
				work := prepared(t, m, log)
				summary, err := work.Plan(t.Context())
				if err != nil {
					t.Fatalf("%v\n%s", err, log)
				}
				if summary.Add < 10 || summary.Change+summary.Destroy+summary.Replace > 0 {
					t.Errorf("a first plan: %+v", summary)
				}
				result, err := work.Apply(t.Context())
				if err != nil {
					t.Fatalf("%v\n%s", err, log)
				}
				if strings.Contains(log.String(), "Warning:") {
					t.Errorf("terraform warns:\n%s", log)
				}
				promised(t, p, result)
				if summary, err = work.Plan(t.Context()); err != nil || !summary.Empty {
					t.Errorf("a second plan: %v, %+v", err, summary)
				}
				if _, err := work.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestATypingErrorInAPackageOfAClusterIsFound(t *testing.T) {
	for name, test := range map[string]struct{ file, from, to, want string }{
		"cluster-aws": {
			"nodes.tf", "encrypted             = true", "encrypt               = true",
			`nodes.tf:35: Unsupported argument: An argument named "encrypt" is not expected here`,
		},
		"cluster-gcp": {
			"cluster.tf", "enable_private_nodes    = true", `enable_private_nodes    = "yes"`,
			"cluster.tf:67: Incorrect attribute value type: Inappropriate value for attribute \"enable_private_nodes\": a bool is required",
		},
		"cluster-azure": {
			"cluster.tf", `    network_plugin      = "azure"` + "\n", "",
			`cluster.tf:99: Missing required argument: The argument "network_plugin" is required, but no definition was found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusters[name]
			files := folder(t, name)
			p, err := packages.Load(files)
			if err != nil {
				t.Fatal(err)
			}
			changed := fstest.MapFS{}
			err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				raw, err := fs.ReadFile(files, path)
				if path == "terraform/"+test.file {
					before := raw
					raw = bytes.Replace(raw, []byte(test.from), []byte(test.to), 1)
					err = errors.Join(err, map[bool]error{true: errors.New("there is nothing to mistype")}[bytes.Equal(raw, before)])
				}
				changed[path] = &fstest.MapFile{Data: raw}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			m := recorded(t, c.provider, p, changed)
			m.Inputs = inputs(t, p, c.least)
			_, err = prepared(t, m, &lines{}).Plan(t.Context())
			line := regexp.MustCompile(`\.tf:[0-9]+`)
			if err == nil || !strings.Contains(line.ReplaceAllString(err.Error(), ".tf"), line.ReplaceAllString(test.want, ".tf")) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestPackagesOfClustersRefuseWhatMakesNoSense(t *testing.T) {
	for name, test := range map[string]struct {
		pack string
		set  map[string]any
		want string
	}{
		"more nodes at least than at most": {
			"cluster-aws",
			map[string]any{"nodeMin": 7, "nodeMax": 3},
			"node_max (3) is less than node_min (7)",
		},
		"addresses that are none": {"cluster-gcp", map[string]any{"pods": "10.4.0.0/99"}, "It is a CIDR, such as 10.4.0.0/14"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusters[test.pack]
			files := folder(t, test.pack)
			p, err := packages.Load(files)
			if err != nil {
				t.Fatal(err)
			}
			given := map[string]any{}
			for _, answers := range []map[string]any{c.least, test.set} {
				for key, value := range answers {
					given[key] = value
				}
			}
			m := recorded(t, c.provider, p, files)
			m.Inputs = inputs(t, p, given)
			if _, err = prepared(t, m, &lines{}).Plan(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// Nobody has the real providers here. Where they can be had this is what to run; here it runs on what they are taken for.
func TestRecordedSchemasAreComparedWithTheProvidersOwn(t *testing.T) {
	tool := find(t)
	for name, c := range clusters {
		p, err := packages.Load(folder(t, name))
		if err != nil {
			t.Fatal(err)
		}
		m := recorded(t, c.provider, p, folder(t, name))
		work, err := tool.Prepare(t.Context(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := exec.CommandContext(t.Context(), tool.Path, "providers", "schema", "-json")
		asked.Dir = filepath.Join(m.Dir, "module")
		asked.Env = os.Environ()
		for key, value := range m.Env {
			asked.Env = append(asked.Env, key+"="+value)
		}
		own, err := asked.Output()
		if err := errors.Join(err, work.Close()); err != nil {
			t.Fatal(err)
		}
		for how, test := range map[string]struct{ from, to, want string }{
			"the same": {"", "", ""},
			"another":  {`"required":true`, `"optional":true`, "and the provider has required false, optional true"},
		} {
			compared := exec.CommandContext(t.Context(), provider(t), "compare",
				filepath.Join(m.Env["RECORDED_SCHEMAS"], c.provider+".json"))
			compared.Stdin = strings.NewReader(strings.Replace(string(own), test.from, test.to, 1))
			out, err := compared.CombinedOutput()
			if (err == nil) != (test.want == "") || !strings.Contains(string(out), test.want) {
				t.Errorf("%s, %s: %v\n%s", name, how, err, out)
			}
		}
	}
}

// folder is a package of the embedded catalog.
func folder(t *testing.T, name string) fs.FS {
	t.Helper()
	files, err := fs.Sub(templates.Catalog(), name)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// provider is the program that stands for the real ones.
func provider(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../.tools/terraform-provider-recorded")
	if err != nil {
		t.Fatal(err)
	}
	return needs.Program(t, path, "it by make .tools/terraform-provider-recorded")
}

// recorded is a package's only step, with a mirror that has the recorded provider under the real one's address.
func recorded(t *testing.T, name string, p *packages.Package, files fs.FS) terraform.Module {
	t.Helper()
	mirror := t.TempDir()
	step := p.Spec.Steps[0].Terraform
	root, err := fs.Sub(files, step.Path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, "versions.tf")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`version = "([0-9.]+)"`).FindSubmatch(text)
	if pinned == nil {
		t.Fatal("the provider's version is not pinned")
	}
	version := string(pinned[1])
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		dir := filepath.Join(mirror, host, "hashicorp", name, version, runtime.GOOS+"_"+runtime.GOARCH)
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.Symlink(provider(t), filepath.Join(dir, "terraform-provider-"+name+"_v"+version))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cli := "provider_installation {\n  filesystem_mirror {\n    path = " + strconv.Quote(mirror) + "\n  }\n}\n"
	config := filepath.Join(mirror, "cli.tfrc")
	if err := os.WriteFile(config, []byte(cli), 0o600); err != nil {
		t.Fatal(err)
	}
	m := module(t, "")
	m.Files = root
	schemas, err := filepath.Abs("testdata/schemas")
	if err != nil {
		t.Fatal(err)
	}
	m.Env = map[string]string{"RECORDED_SCHEMAS": schemas, "TF_CLI_CONFIG_FILE": config}
	return m
}

// inputs are those of the package's only step with these answers.
func inputs(t *testing.T, p *packages.Package, given map[string]any) map[string]any {
	t.Helper()
	facts := map[string]any{"installation": map[string]any{"name": "cluster"}}
	answers, err := p.Answers(given, facts)
	if err != nil {
		t.Fatal(err)
	}
	if len(answers.Missing) > 0 {
		t.Fatalf("missing answers: %v", answers.Missing)
	}
	tree, err := expr.Compile(p.Spec.Steps[0].Terraform.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	value, err := tree.Eval(map[string]any{"answers": answers.Values})
	if err != nil {
		t.Fatal(err)
	}
	return value.(map[string]any)
}

// promised fails when the module does not give what the package's outputs take from it.
func promised(t *testing.T, p *packages.Package, result *terraform.Result) {
	t.Helper()
	for name, output := range p.Spec.Outputs {
		text, _ := output.Value.(string)
		from := strings.TrimSuffix(strings.TrimPrefix(text, "${steps.cluster.outputs."), "}")
		if given, ok := result.Outputs[from]; !ok || given.Value == nil || given.Secret != output.Secret {
			t.Errorf("output %s is %s, and the module gives %+v", name, text, given)
		}
	}
}
