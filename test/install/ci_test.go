package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/test/support/needs"
)

// step is one of a job at GitHub or of an action.
type step struct {
	ID, Uses, Run, Shell, If string
	Env, With                map[string]string
}

// runner does what GitHub's does with steps, as far as a shell can: each in a shell of its own, with what the ones before it wrote
// into the files that are there for that.
type runner struct {
	*machine
	work    string
	context map[string]string
}

func newRunner(m *machine) *runner {
	m.t.Helper()
	r := &runner{machine: m, work: filepath.Join(m.home, "work"), context: map[string]string{}}
	for _, name := range []string{"temp", "output", "summary", "path"} {
		m.write("runner/"+name+"/.keep", "", 0o600)
	}
	return r
}

var expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

// evaluate puts values in the place of expressions; the test fails where one is not known.
func (r *runner) evaluate(text string) string {
	return expression.ReplaceAllStringFunc(text, func(found string) string {
		name := expression.FindStringSubmatch(found)[1]
		value, known := r.context[name]
		if !known {
			r.t.Fatalf("%q: this runner does not know %s", text, name)
		}
		return value
	})
}

// do runs a step, and gives what it printed.
func (r *runner) do(s step, more ...string) (string, error) {
	r.t.Helper()
	if expression.MatchString(s.Run) {
		r.t.Fatalf("an expression in a script is a way in for whoever chooses its value: %s", s.Run)
	}
	shell := []string{needs.Program(r.t, "bash", "bash"), "-e", "-c"}
	if s.Shell == "sh" {
		shell = append(append([]string{}, r.shell...), "-e", "-c")
	}
	cmd := exec.CommandContext(r.t.Context(), shell[0], append(shell[1:], s.Run)...)
	file := func(name string) string { return filepath.Join(r.home, "runner", name, "file") }
	paths, _ := os.ReadFile(file("path")) // there is none before the first step that writes it
	path := append(strings.Fields(string(paths)), r.bin)
	cmd.Dir = r.work
	cmd.Env = append(append([]string{}, r.env...), "CI=true", "GITHUB_ACTIONS=true", "RUNNER_TEMP="+filepath.Join(r.home, "runner", "temp"),
		"GITHUB_PATH="+file("path"), "GITHUB_OUTPUT="+file("output"), "GITHUB_STEP_SUMMARY="+file("summary"), "PATH="+strings.Join(path, ":"))
	cmd.Env = append(cmd.Env, more...)
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+r.evaluate(value))
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// setup runs action.yml as `uses:` does, by a reference and with inputs.
func (r *runner) setup(ref string, with map[string]string) (string, error) {
	r.t.Helper()
	var action struct {
		Inputs map[string]struct{ Description, Default string }
		Runs   struct {
			Using string
			Steps []step
		}
	}
	decode(r.t, read(r.t, "action.yml"), &action)
	if action.Runs.Using != "composite" {
		r.t.Fatalf("action.yml is %q", action.Runs.Using)
	}
	r.context["github.action_ref"] = ref
	for name, input := range action.Inputs {
		r.context["inputs."+name] = input.Default
	}
	for name, value := range with {
		if _, has := action.Inputs[name]; !has {
			r.t.Fatalf("action.yml has no input %s", name)
		}
		r.context["inputs."+name] = value
	}
	at, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		r.t.Fatal(err)
	}
	var all string
	for _, s := range action.Runs.Steps {
		if s.Uses != "" {
			r.t.Errorf("the action takes %s of others", s.Uses)
		}
		out, err := r.do(s, "GITHUB_ACTION_PATH="+at)
		if all += out; err != nil {
			return all, err
		}
	}
	return all, nil
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// block is a file that a page shows.
func block(t *testing.T, page, file string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, page), "```yaml\n# "+file+"\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatalf("%s does not show %s", page, file)
	}
	return text
}

// change is a clone of a fleet in which somebody proposes a service, and origin is what it is proposed for.
func (m *machine) change(clone string) {
	m.t.Helper()
	plural, err := filepath.Abs(filepath.Join("..", "..", "bin", "plural"))
	if err != nil {
		m.t.Fatal(err)
	}
	sample := filepath.Join(filepath.Dir(plural), "..", "templates", "sample")
	m.write(".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o600)
	cmd := exec.CommandContext(m.t.Context(), "bash", "-euc", `
plural init origin --name demo --hub-url https://hub.example.com --no-input
git clone -q origin "$1"
cp -r "$2/apps" "$2/services" "$1"
cd "$1"
git checkout -qb proposed
cat > clusters/edge-1.yaml <<END
apiVersion: plural.sh/v1alpha1
kind: Cluster
metadata: {name: edge-1}
spec: {tags: {env: local}}
END
git add . && git commit -qm Propose
`, "change", clone, sample)
	cmd.Dir, cmd.Env = m.home, []string{"HOME=" + m.home, "PATH=" + filepath.Dir(plural) + ":" + os.Getenv("PATH"), "CI=true"}
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
}

// released is a server with the real plural, and a machine of a CI that trusts it. A stub of cosign stands for one that takes the
// signature: nobody here can sign as the project's workflow, as the guide has it.
func released(t *testing.T) (*server, *machine) {
	t.Helper()
	s := newServer(t)
	s.realRelease()
	m := s.trusts(newMachine(t))
	m.stub("cosign", 0)
	m.has("git", "bash", "sh")
	return s, m
}

func TestTheActionInstallsTheReleaseThatItIsNamedBy(t *testing.T) {
	s := newServer(t)
	s.release("1.2.3", small(t, "1.2.3"))
	s.release("1.3.0", small(t, "1.3.0"))
	for _, tc := range []struct{ ref, version, want string }{
		{"v1.2.3", "", "1.2.3"},
		{"v1.3.0", "1.2.3", "1.2.3"},
		{"v1", "", "1.3.0"},
		{"", "", "1.3.0"},
		{"0123456789012345678901234567890123456789", "", "1.3.0"},
	} {
		r := newRunner(s.trusts(newMachine(t)))
		r.has("sh")
		if err := os.Mkdir(r.work, 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := r.setup(tc.ref, map[string]string{"from": s.place(), "version": tc.version})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if said := strings.TrimSpace(r.text("runner/output/file")); said != "version="+tc.want {
			t.Errorf("by %q with %q: %s", tc.ref, tc.version, said)
		}
		if out, err := r.do(step{Run: "plural version"}); err != nil || !strings.HasPrefix(out, "plural "+tc.want+" ") {
			t.Errorf("the next step has another plural: %v\n%s", err, out)
		}
	}
	r := newRunner(s.trusts(newMachine(t)))
	r.has("sh")
	if err := os.Mkdir(r.work, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := r.setup("v1.2.3", map[string]string{"from": s.place(), "version": `1.2.3"; touch x; "`}); err == nil {
		t.Errorf("takes a version that is none:\n%s", out)
	}
	if paths := r.text("runner/path/file"); paths != "" {
		t.Errorf("PATH has %s after a failure", paths)
	}
}

// text is a file of the home, or nothing.
func (m *machine) text(name string) string {
	content, _ := os.ReadFile(filepath.Join(m.home, name)) // nothing is an answer
	return string(content)
}

func TestTheCheckOfTheGuideRunsOnARunnerOfGitHub(t *testing.T) {
	s, m := released(t)
	r := newRunner(m)
	r.change("work")
	var workflow struct {
		Jobs map[string]struct{ Steps []step }
	}
	decode(t, block(t, "docs/guide/ci.md", ".github/workflows/check.yaml"), &workflow)
	steps := workflow.Jobs["check"].Steps
	if len(steps) < 5 {
		t.Fatalf("%d steps: are they found?", len(steps))
	}
	ran := 0
	for _, one := range steps {
		name, ref, _ := strings.Cut(one.Uses, "@")
		switch name {
		case "pluralsh/plural":
			with := map[string]string{"from": s.place()} // in place of GitHub
			for k, v := range one.With {
				with[k] = v
			}
			if out, err := r.setup(ref, with); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		case "": // in an empty home, in which the fleet is not known
			out, err := r.do(one, "GITHUB_BASE_REF=main", "HOME="+t.TempDir())
			if err != nil {
				t.Errorf("%s: %v\n%s", one.Run, err, out)
			}
			ran++
		case "actions/checkout", "actions/upload-artifact": // the clone and diff.md are there
		default:
			t.Errorf("this runner does not know %s", one.Uses)
		}
	}
	if summary := r.text("runner/summary/file"); ran < 4 || !shows(summary) {
		t.Errorf("after %d commands the summary has\n%s", ran, summary)
	}
}

// shows says whether a text is the difference that the change makes.
func shows(text string) bool {
	return strings.Contains(text, "**plural diff** against `refs/remotes/origin/main`") && strings.Contains(text, "podinfo")
}

var input = regexp.MustCompile(`\$\[\[ *inputs\.([a-z]+) *\]\]`)

func TestTheCheckOfTheGuideRunsOnARunnerOfGitLab(t *testing.T) {
	s, m := released(t)
	m.change("work")

	// What the page includes is a file of this tree.
	var pipeline struct {
		Include []struct {
			Remote string
			Inputs map[string]string
		}
	}
	decode(t, block(t, "docs/guide/ci.md", ".gitlab-ci.yml"), &pipeline)
	if len(pipeline.Include) != 1 {
		t.Fatalf("the page includes %v", pipeline.Include)
	}
	included := pipeline.Include[0]
	file, ours := strings.CutPrefix(included.Remote, "https://raw.githubusercontent.com/pluralsh/plural/v"+included.Inputs["version"]+"/")
	if !ours {
		t.Fatalf("%s is not of version %s", included.Remote, included.Inputs["version"])
	}
	included.Inputs["from"] = s.place() // in place of GitHub

	header, body, _ := strings.Cut(read(t, file), "\n---\n")
	var spec struct {
		Spec struct {
			Inputs map[string]struct {
				Default *string
				Regex   string
			}
		}
	}
	decode(t, header, &spec)
	for name, declared := range spec.Spec.Inputs {
		value, given := included.Inputs[name]
		if !given && declared.Default == nil {
			t.Errorf("the page does not say %s", name)
		}
		if given && !regexp.MustCompile(declared.Regex).MatchString(value) {
			t.Errorf("%s: %q is not as %s says", name, value, declared.Regex)
		}
	}
	body = input.ReplaceAllStringFunc(body, func(found string) string {
		name := input.FindStringSubmatch(found)[1]
		declared, known := spec.Spec.Inputs[name]
		if !known {
			t.Fatalf("there is no input %s", name)
		}
		if value, given := included.Inputs[name]; given {
			return value
		}
		return *declared.Default
	})
	var jobs map[string]struct {
		Extends      string
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Artifacts    struct{ Paths []string }
	}
	decode(t, body, &jobs)
	job := jobs["plural-check"]
	base := jobs[job.Extends]
	if len(base.BeforeScript) == 0 || len(job.Script) == 0 {
		t.Fatalf("%s has no scripts:\n%s", file, body)
	}

	// Its runner joins both into one script.
	m.env = append(m.env, "CI=true", "GITLAB_CI=true", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main", "TMPDIR="+t.TempDir())
	for _, variables := range []map[string]string{base.Variables, job.Variables} {
		for name, value := range variables {
			m.env = append(m.env, name+"="+value)
		}
	}
	lines := append(append([]string{}, base.BeforeScript...), job.Script...)
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", strings.Join(lines, "\n"))
	cmd.Dir, cmd.Env = filepath.Join(m.home, "work"), m.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range job.Artifacts.Paths {
		if text := m.text("work/" + path); !shows(text) {
			t.Errorf("%s has\n%s", path, text)
		}
	}
}

func TestTheVersionsThatPagesNameAreOne(t *testing.T) {
	named := map[string]bool{}
	version := regexp.MustCompile(`(?:pluralsh/plural@|pluralsh/plural/|releases/download/|version: )v?(\d+\.\d+\.\d+)`)
	for _, page := range []string{"docs/guide/ci.md", "docs/guide/install.md"} {
		for _, found := range version.FindAllStringSubmatch(read(t, page), -1) {
			named[found[1]] = true
		}
	}
	if len(named) != 1 || !named[realVersion] {
		t.Errorf("pages name %v, and %s is what is tested", named, realVersion)
	}
}
