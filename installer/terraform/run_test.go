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

const echo = `
variable "text" { type = string }
resource "terraform_data" "it" { input = var.text }
output "text" { value = terraform_data.it.output }
`

func TestInputsArriveByteForByte(t *testing.T) {
	texts := []any{
		"plain", "", "${var.text}", "%{ if true }x%{ endif }", "$${literal}", `"}`, `\"; rm -rf / #`, "two\nlines\r\n", "\t", "'", "`id`",
		"$(id)", "{{ .x }}", "<<EOF\nx\nEOF", "é ü 日本 🎉", "-leading", "../x", "\u0000\u0001", "null", "true", "007", strings.Repeat("x", 10_000),
	}
	for name, secret := range map[string]bool{"as they are": false, "as secrets": true} {
		t.Run(name, func(t *testing.T) {
			m := module(t, strings.Replace(echo, "type = string", "type = list(string)", 1))
			m.Inputs = map[string]any{"text": texts}
			m.Secret = map[string]bool{"text": secret}
			if diff := cmp.Diff(any(texts), applied(t, m).Outputs["text"].Value); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnInputThatIsNotTextIsRefused(t *testing.T) {
	m := module(t, echo)
	m.Inputs = map[string]any{"text": "\xff\xfe"}
	_, err := find(t).Prepare(t.Context(), m, nil)
	var input *terraform.InputError
	if !errors.As(err, &input) || input.Name != "text" {
		t.Fatalf("got %v", err)
	}
}

func TestAnInputWithoutAVariableIsRefusedBeforeAnythingIsDone(t *testing.T) {
	m := module(t, echo)
	m.Inputs = map[string]any{"text": "x", "txet": "y"}
	result, err := prepared(t, m, &lines{}).Apply(t.Context())
	const want = `terraform input "txet": the module has no such variable: name one that it has: text`
	if err == nil || told(err) != want || result.State != nil {
		t.Fatalf("got %v, state %s", err, result.State)
	}
}

func TestOutputsKeepTheirTypes(t *testing.T) {
	m := module(t, `
output "text" { value = "7" }
output "whole" { value = 9007199254740993 }
output "half" { value = 0.5 }
output "yes" { value = true }
output "list" { value = [1, "two", null] }
output "map" { value = { a = { b = 3 } } }
output "secret" {
  value     = "hunter22"
  sensitive = true
}`)
	want := map[string]terraform.Output{
		"text": {Value: "7"}, "whole": {Value: int64(9007199254740993)}, "half": {Value: 0.5}, "yes": {Value: true},
		"list":   {Value: []any{int64(1), "two", nil}},
		"map":    {Value: map[string]any{"a": map[string]any{"b": int64(3)}}},
		"secret": {Value: "hunter22", Secret: true},
	}
	if diff := cmp.Diff(want, applied(t, m).Outputs); diff != "" {
		t.Error(diff)
	}
}

func TestSettingsOfAPersonThatAreNotThereAreIgnored(t *testing.T) {
	work := prepared(t, module(t, `output "a" { value = 1 }`), &lines{})
	t.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(t.TempDir(), "none.tfrc"))
	if _, err := work.Plan(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	m := module(t, echo)
	m.Inputs = map[string]any{"text": "x"}
	first := applied(t, m)
	m.State = first.State
	m.Dir = filepath.Join(t.TempDir(), "elsewhere")
	work := prepared(t, m, &lines{})
	summary, err := work.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&terraform.Summary{Empty: true}, summary); diff != "" {
		t.Error(diff)
	}
	second, err := work.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanSaysWhatItWouldDo(t *testing.T) {
	const text = `
variable "kept" { type = string }
resource "terraform_data" "changed" { input = var.kept }
resource "terraform_data" "replaced" { triggers_replace = var.kept }
output "kept" { value = var.kept }
`
	m := module(t, text+`resource "terraform_data" "removed" {}`)
	m.Inputs = map[string]any{"kept": "a"}
	m.State = applied(t, m).State
	m.Inputs = map[string]any{"kept": "b"}
	m.Files = files(text + `resource "terraform_data" "added" {}`)
	got, err := prepared(t, m, &lines{}).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &terraform.Summary{Add: 1, Change: 1, Destroy: 1, Replace: 1, Changes: []terraform.Change{
		{Address: "output.kept", Action: "update"},
		{Address: "terraform_data.added", Action: "create"},
		{Address: "terraform_data.changed", Action: "update"},
		{Address: "terraform_data.removed", Action: "delete"},
		{Address: "terraform_data.replaced", Action: "replace"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanThatDestroysIsRefusedUnlessTheModuleMay(t *testing.T) {
	m := module(t, `resource "terraform_data" "a" { triggers_replace = 1 }
resource "terraform_data" "b" {}`)
	before := applied(t, m)
	m.State = before.State
	m.Files = files(`resource "terraform_data" "a" { triggers_replace = 2 }`)

	work := prepared(t, m, &lines{})
	result, err := work.Apply(t.Context())
	const want = "apply terraform plan: it would destroy terraform_data.a, terraform_data.b: " +
		"if that is meant: --allow-destroy, or allowDestroy: true in the package's step"
	if !errors.As(err, new(*terraform.DestroyError)) || told(err) != want {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(before.State, result.State); diff != "" {
		t.Error(diff)
	}
	if err := work.Close(); err != nil {
		t.Fatal(err)
	}
	m.AllowDestroy = true
	if after := applied(t, m); strings.Contains(string(after.State), `"name": "b"`) {
		t.Errorf("it still stands: %s", after.State)
	}
}

func TestDestroyTakesAllAway(t *testing.T) {
	m := module(t, echo)
	m.Inputs = map[string]any{"text": "x"}
	m.State = applied(t, m).State
	result, err := prepared(t, m, &lines{}).Destroy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Resources []any }
	if err := json.Unmarshal(result.State, &state); err != nil || len(state.Resources) > 0 || len(result.Outputs) > 0 {
		t.Errorf("%v: %s, outputs %v", err, result.State, result.Outputs)
	}
}

func TestDestroyOfWhatWasNeverMadeDoesNothing(t *testing.T) {
	m := module(t, echo) // not even its input is needed
	result, err := prepared(t, m, &lines{}).Destroy(t.Context())
	if err != nil || result.State != nil {
		t.Errorf("%v, state %s", err, result.State)
	}
}

func TestFailuresNameResourcePlaceAndCause(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a resource that fails": {
			`resource "terraform_data" "it" {
  provisioner "local-exec" { command = "echo no room >&2; exit 3" }
}`, `terraform apply: terraform_data.it: local-exec provisioner error: Error running command 'echo no room >&2; exit 3': exit status 3. Output: no room`,
		},
		"a mistake in the module": {
			`output "x" { value = var.nowhere }`,
			`terraform plan: main.tf:1: Reference to undeclared input variable: An input variable with the name "nowhere" has not been declared. ` +
				`This variable can be declared with a variable "nowhere" {} block`,
		},
		"an input that the module refuses": {
			`variable "size" {
  default = 3
  validation {
    condition     = var.size < 3
    error_message = "at most two"
  }
}`, "terraform plan: main.tf:1: Invalid value for variable: at most two",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := prepared(t, module(t, test.text), &lines{}).Apply(t.Context())
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAMistakeThatStopsInitIsToldWithItsPlace(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no such block": {
			"\nresurce \"terraform_data\" \"it\" {}\n",
			"terraform init: main.tf:2: Unsupported block type: Blocks of type \"resurce\" are not expected here. Did you mean \"resource\"?",
		},
		"no end":      {"resource \"terraform_data\" \"it\" {\n", "terraform init: main.tf:1: Unclosed configuration block: There is no closing brace for this block"},
		"two of them": {"check \"a\" {}\ncheck \"b\" {}\n", "terraform init: main.tf:1: Zero assert blocks: Check blocks must have at least one assert block (and 1 more errors)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := find(t).Prepare(t.Context(), module(t, test.text), nil)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAPersonIsToldWhatMattersAndTheLogHasTheRest(t *testing.T) {
	m := module(t, `
resource "terraform_data" "a" {
  count = 3
  provisioner "local-exec" { command = "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done" }
}
check "it" {
  assert {
    condition     = terraform_data.a[0].id == ""
    error_message = "of many lines\nmore\nand more"
  }
}`)
	var told []string
	m.Told = func(text string) { told = append(told, text) }
	log := &lines{}
	work, err := find(t).Prepare(t.Context(), m, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := work.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range told {
		if strings.Contains(line, "line ") || strings.Contains(line, "more") || strings.Contains(line, "\n") {
			t.Errorf("told %q", line)
		}
	}
	if warnings := strings.Count(strings.Join(told, "\n"), "Warning: "); warnings > 2 || len(told) > 3+3+2+1 { // one of the plan, one of what came
		t.Errorf("told\n%s", strings.Join(told, "\n"))
	}
	for _, line := range []string{"line 9", "and more"} {
		if !strings.Contains(log.text.String(), line) {
			t.Errorf("the log has no %q:\n%s", line, log.text.String())
		}
	}
}

func TestWhatWasMadeBeforeAFailureIsInTheState(t *testing.T) {
	m := module(t, `
resource "terraform_data" "first" {}
resource "terraform_data" "second" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "exit 1" }
}`)
	result, err := prepared(t, m, &lines{}).Apply(t.Context())
	if err == nil || !strings.Contains(string(result.State), `"name": "first"`) {
		t.Errorf("%v: %s", err, result.State)
	}
}

func TestWhatIsSecretStaysOutOfLogErrorsAndFiles(t *testing.T) {
	const secret = "tr0ub4dor \"&3\n${x}"
	m := module(t, `
variable "password" { type = string }
variable "nested" { type = map(list(string)) }
resource "terraform_data" "it" {
  input = var.password
  provisioner "local-exec" {
    command     = "printf '%s\\n' \"$P\" \"$N\"; exit 1"
    environment = { P = var.password, N = var.nested.a[0] }
  }
}
output "same" { value = "user:${var.password}" }
output "own" {
  value     = join("-", ["made", "inside"])
  sensitive = true
}`)
	m.Inputs = map[string]any{"password": secret, "nested": map[string]any{"a": []string{"in-a-list"}}}
	m.Secret = map[string]bool{"password": true, "nested": true}
	log := &lines{}
	work := prepared(t, m, log)
	result, err := work.Apply(t.Context())
	if err == nil {
		t.Fatal("it did not fail")
	}
	if err := work.Close(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"tr0ub4dor", "in-a-list"} {
		if strings.Contains(log.String(), part) || strings.Contains(err.Error(), part) {
			t.Errorf("%q is in the log or the error:\n%s\n%v", part, log, err)
		}
		holding(t, m.Dir, part, "terraform.tfstate")
	}
	if !strings.Contains(log.String(), "[redacted]") {
		t.Errorf("nothing was said:\n%s", log)
	}
	if out := result.Outputs["same"]; !out.Secret {
		t.Errorf("an output that holds a secret input is none: %v", out)
	}
	if out := result.Outputs["own"]; !out.Secret {
		t.Errorf("a sensitive output is none: %v", out)
	}
	if err := work.Forget(); err != nil {
		t.Fatal(err)
	}
	holding(t, m.Dir, "tr0ub4dor")
	holding(t, m.Dir, "made-inside")
}

func TestFilesAreForTheirUserAlone(t *testing.T) {
	m := module(t, echo)
	m.Inputs = map[string]any{"text": "x"}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	applied(t, m)
	info, err := os.Stat(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v", info.Mode())
	}
}

func TestAModuleMayNotBringWhatARunWrites(t *testing.T) {
	for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup", ".terraform/providers/x", "errored.tfstate", "sub/.terraform/x", "plural.tfplan"} {
		m := module(t, "")
		m.Files = mapped(map[string]string{"main.tf": "", name: "x"})
		if _, err := find(t).Prepare(t.Context(), m, nil); err == nil || !strings.Contains(err.Error(), name+": a module may not bring this file") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
