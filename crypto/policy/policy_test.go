package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pluralsh/plural/internal/selector"
)

const id = "3f0c3f0c3f0c3f0c3f0c3f0c3f0c3f0c"

// seal writes a policy with these lines under spec.
func sealYAML(spec ...string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + id + "\n  " + strings.Join(spec, "\n  ") + "\n"
}

// pathsOf is a policy with these patterns, the group of each being g and its number from 0.
func pathsOf(t *testing.T, patterns ...string) *Policy {
	t.Helper()
	text, err := New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range patterns {
		if text, err = WithPattern(text, p, []string{fmt.Sprint("g", i)}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLoadReadsWhatPeopleWrite(t *testing.T) {
	text := sealYAML(
		"groups:",
		"- name: prod",
		"  clusters: {matchLabels: {env: prod}}",
		"- name: all",
		"  clusters: {all: true}",
		"- name: edge",
		"  clusters:",
		"    names: [edge-1]",
		"    matchExpressions:",
		"    - {key: tier, operator: In, values: [gold, silver]}",
		"paths:",
		"- pattern: \"secrets/**\"",
		"  groups: [fleet]",
		"- pattern: \"**/*.secret.yaml\"",
		"  groups: [prod, fleet]",
	)
	got, err := Load(fstest.MapFS{File: {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Policy{
		Repository: id,
		Groups: []Group{
			{"prod", &Selector{MatchLabels: map[string]string{"env": "prod"}}, 7},
			{"all", &Selector{All: true}, 9},
			{"edge", &Selector{Names: []string{"edge-1"}, MatchExpressions: []Requirement{{Key: "tier", Operator: selector.In, Values: []string{"gold", "silver"}}}}, 11},
		},
		Paths: []Pattern{{"secrets/**", []string{"fleet"}, 17}, {"**/*.secret.yaml", []string{"prod", "fleet"}, 19}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Policy{})); diff != "" {
		t.Error(diff)
	}
}

func TestLoadWithoutAFileIsErrNone(t *testing.T) {
	if _, err := Load(fstest.MapFS{}); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}

func TestParseNamesTheLineOfAMistake(t *testing.T) {
	const paths = "paths: []"
	tests := []struct{ name, text, want string }{
		{"empty", "", ":1: the file is empty"},
		{"only a comment", "# nothing\n", ":1: "},
		{"not yaml", "a: [\n", ": not YAML: "},
		{"tab", "spec:\n\trepository: x\n", ":2: not YAML: "},
		{"a list", "- a\n", ":1: the document must be fields"},
		{"two documents", sealYAML(paths) + "---\na: b\n", "a second document"},
		{"other version", strings.Replace(sealYAML(paths), "v1alpha1", "v2", 1), ":1: apiVersion must be plural.sh/v1alpha1"},
		{"other kind", strings.Replace(sealYAML(paths), "Seal", "Service", 1), ":2: kind must be Seal"},
		{"other name", strings.Replace(sealYAML(paths), "name: seal", "name: other", 1), ":3: metadata.name must be seal"},
		{"no spec", "apiVersion: plural.sh/v1alpha1\nkind: Seal\n", `:1: missing field "spec"`},
		{"no repository", "apiVersion: plural.sh/v1alpha1\nkind: Seal\nspec:\n  paths: []\n", `:4: missing field "repository"`},
		{"short repository", strings.Replace(sealYAML(paths), id, "3f0c", 1), ":5: repository must be 32 hex digits"},
		{"no paths", sealYAML("groups: []"), `:5: missing field "paths"`},
		{"unknown field", sealYAML(paths, "path: []"), `:7: unknown field "path" in spec: known fields are groups, paths, repository`},
		{"unknown field of a path", sealYAML("paths:", "- pattern: a", "  group: [g]"), `:8: unknown field "group"`},
		{"a key twice", sealYAML(paths, "paths: []"), `:7: the field "paths" is already set in line 6`},
		{"an alias", sealYAML("groups: &a []", "paths: *a"), ":7: paths must be a list, found an alias"},
		{"a merge key", sealYAML("paths:", "- <<: {pattern: a}", "  groups: [g]"), ":7: a key in a path is"},
		{"a number for text", sealYAML("paths:", "- pattern: 12", "  groups: [g]"), ":7: pattern must be text"},
		{"no text", sealYAML("paths:", "- pattern:", "  groups: [g]"), ":7: pattern must be text, found nothing"},
		{"one group as text", sealYAML("paths:", "- pattern: a", "  groups: g"), ":8: groups must be a list"},
		{"no group", sealYAML("paths:", "- pattern: a", "  groups: []"), `:7: the pattern "a" names no group`},
		{"bad group", sealYAML("paths:", "- pattern: a", "  groups: [../g]"), `:7: bad name "../g"`},
		{"group of a device", sealYAML("groups:", "- name: nul.x", paths), ":7: bad name"},
		{"same pattern twice", sealYAML("paths:", "- {pattern: a, groups: [g]}", "- {pattern: a, groups: [h]}"), `:8: the pattern "a" is already set in line 7`},
		{"same group twice", sealYAML("groups:", "- name: a", "- name: A", paths), `:8: the group "A" is already set in line 7`},
		{"empty selector", sealYAML("groups:", "- {name: a, clusters: {}}", paths), ":7: clusters without a condition"},
		{"all beside names", sealYAML("groups:", "- {name: a, clusters: {all: true, names: [x]}}", paths), ":7: all: true stands beside"},
		{"all false", sealYAML("groups:", "- {name: a, clusters: {all: false}}", paths), ":7: all must be true"},
		{"number as label", sealYAML("groups:", "- {name: a, clusters: {matchLabels: {a: 1}}}", paths), ":7: matchLabels.a must be text"},
		{"all as text", sealYAML("groups:", "- {name: a, clusters: {all: \"true\"}}", paths), ":7: all must be true"},
		{"a number among groups", sealYAML("paths:", "- pattern: a", "  groups: [g, 12]"), ":8: an entry of groups must be text"},
		{
			"a bad condition beside others",
			sealYAML("groups:", "- {name: a, clusters: {names: [x], matchExpressions: [{key: a, operator: In, value: [b]}]}}", paths),
			`:7: unknown field "value" in a condition`,
		},
		{"bad operator", sealYAML("groups:", "- {name: a, clusters: {matchExpressions: [{key: a, operator: Is}]}}", paths), `:7: unknown operator "Is"`},
		{"In without values", sealYAML("groups:", "- {name: a, clusters: {matchExpressions: [{key: a, operator: In}]}}", paths), ":7: the operator In takes values"},
		{"Exists with values", sealYAML("groups:", "- {name: a, clusters: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}", paths), ":7: the operator Exists takes no values"},
		{"too large", strings.Repeat("#", MaxFile+1), ": the file is larger than 1 MiB"},
		{"too many patterns", sealYAML("paths: [" + strings.Repeat("{pattern: a, groups: [g]},", MaxPatterns+1) + "]"), ":6: paths has more than 1000 entries"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if err == nil || !strings.HasPrefix(err.Error(), File+":") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// unreadable is a repository that a fault of the disk hides.
type unreadable struct{}

func (unreadable) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

func TestAPolicyThatCannotBeReadIsNotNone(t *testing.T) {
	for name, files := range map[string]fs.FS{"closed": unreadable{}, "a folder": fstest.MapFS{File: {Mode: fs.ModeDir}}} {
		if p, err := Load(files); p != nil || err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), File) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
	if _, err := Load(unreadable{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestParseTakesARepositoryIDThatYAMLTakesForANumber(t *testing.T) {
	for _, number := range []string{strings.Repeat("1", 32), "1e" + strings.Repeat("3", 30), strings.Repeat("0", 32)} {
		p, err := Parse([]byte(strings.Replace(sealYAML("paths: []"), id, number, 1)))
		if err != nil || p.Repository != number {
			t.Errorf("%s: got %v, %v", number, p, err)
		}
	}
}

func TestParseRefusesPatternsThatGitWouldReadInAnotherWay(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                  "empty",
		"/secrets/**":       "begins with /",
		"secrets/":          `write "secrets/**"`,
		"a//b":              "holds the segment",
		"./a":               "holds the segment",
		"a/../b":            "holds the segment",
		"a/**b":             "** stands alone",
		"***":               "** stands alone",
		"**/**/a":           "twice in a row",
		`a\b`:               "backslash",
		"[a":                "not closed",
		"[]":                "not closed",
		"[!]":               "not closed",
		"[a/b]":             "not closed",
		"[[:alpha:]]":       "named class",
		"[é]":               "not ASCII",
		"[z-a]":             "empty range",
		"a\nb":              "character that no path",
		"plural.yaml":       "never sealed",
		"clusters/*.yaml":   "never sealed",
		".plural/groups/**": "never sealed",
		"a/.gitattributes":  "never sealed",

		strings.Repeat("a", MaxPattern+1): "longer than",
	} {
		if err := checkPattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}

func TestMatchPicksTheMostSpecificPatternWhateverTheOrder(t *testing.T) {
	patterns := []string{
		"**",                     // g0
		"secrets/**",             // g1
		"secrets/prod/**",        // g2
		"secrets/*/db.yaml",      // g3: as many literal segments as g2, fewer literals
		"secrets/prod/db.yaml",   // g4
		"**/*.secret.yaml",       // g5
		"apps/*/x.secret.yaml",   // g6
		"apps/**/x.secret.yaml",  // g7: after g6, for its **
		"secrets/prod/db[0-9].x", // g8
	}
	for path, want := range map[string]string{
		"readme":                     "g0",
		"secrets/a":                  "g1",
		"secrets/dev/db.yaml":        "g3",
		"secrets/prod/a":             "g2",
		"secrets/prod/db.yaml":       "g4",
		"secrets/a/b/c.secret.yaml":  "g1",
		"a/b.secret.yaml":            "g5",
		"b.secret.yaml":              "g5",
		"apps/web/x.secret.yaml":     "g6",
		"apps/web/env/x.secret.yaml": "g7",
		"secrets/prod/db7.x":         "g8",
		"secrets/prod/dbx.x":         "g2",
	} {
		p := pathsOf(t, patterns...)
		slices.Reverse(p.Paths)
		for _, ranked := range [][]ranked{p.ranked, rank(p.Paths)} {
			p.ranked = ranked
			got, must, err := p.Match(path)
			if err != nil || !must || !slices.Equal(got, []string{want}) {
				t.Errorf("%s: got %v %v %v, want %s", path, got, must, err, want)
			}
		}
	}
}

func TestMatchSealsNothingThatIsReadBeforeThereIsAKey(t *testing.T) {
	p := pathsOf(t, "**", "**/*.yaml", "clusters/**")
	for _, path := range []string{
		".plural/seal.yaml", ".plural/groups/a/recipient.txt", "plural.yaml", "plural.lock", "clusters/edge.yaml",
		".gitattributes", "a/b/.gitignore", "secrets/.gitmodules",
	} {
		if groups, must, err := p.Match(path); must || groups != nil || err != nil {
			t.Errorf("%s: got %v %v %v", path, groups, must, err)
		}
	}
	for _, path := range []string{"a/plural.yaml", "clusters/a/b.yaml", "clusters/a.txt", ".pluralx", ".git-credentials", "a/.plural/b"} {
		if _, must, err := p.Match(path); !must || err != nil {
			t.Errorf("%s: got %v %v", path, must, err)
		}
	}
}

func TestMatchNamesTwoPatternsThatAreEquallySpecific(t *testing.T) {
	p := pathsOf(t, "a*/b", "*a/b")
	groups, must, err := p.Match("aa/b")
	if groups != nil || !must || err == nil {
		t.Fatalf("got %v %v %v", groups, must, err)
	}
	for _, want := range []string{File + ":", `"a*/b"`, `"*a/b"`, `"aa/b"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if groups, _, err := p.Match("ab/b"); err != nil || !slices.Equal(groups, []string{"g0"}) {
		t.Errorf("a path that only one matches: got %v %v", groups, err)
	}
}

func TestMatchTakesEquallySpecificPatternsOfTheSameGroups(t *testing.T) {
	p, err := Parse([]byte(sealYAML("paths:", "- {pattern: 'a*', groups: [x, y]}", "- {pattern: '*a', groups: [y, x, y]}")))
	if err != nil {
		t.Fatal(err)
	}
	if groups, must, err := p.Match("aa"); err != nil || !must || !slices.Equal(groups, []string{"x", "y"}) {
		t.Errorf("got %v %v %v", groups, must, err)
	}
}

func TestMatchRefusesPathsThatWouldSlipThrough(t *testing.T) {
	p := pathsOf(t, "secrets/**")
	for _, path := range []string{"", "/secrets/a", "./secrets/a", "secrets//a", "secrets/../secrets/a", "secrets/"} {
		if _, _, err := p.Match(path); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

func TestMatchIsFastForPatternsMadeToBeSlow(t *testing.T) {
	p := pathsOf(t, strings.Repeat("*a", 200)+"b", strings.Repeat("**/a/", 90)+"b", strings.Repeat("*/**/", 60)+"b")
	if _, must, err := p.Match(strings.Repeat("a", 4000)); must || err != nil {
		t.Errorf("got %v %v", must, err)
	}
	if _, must, err := p.Match(strings.Repeat("a/", 2000) + "c"); must || err != nil {
		t.Errorf("got %v %v", must, err)
	}
}

func TestSelectorPicksClusters(t *testing.T) {
	env := map[string]string{"env": "prod", "tier": "gold"}
	tests := []struct {
		selector Selector
		picks    bool
		text     string
	}{
		{Selector{}, false, ""},
		{Selector{All: true}, true, "all"},
		{Selector{Names: []string{"b", "a"}}, true, "names a,b"},
		{Selector{Names: []string{"b"}}, false, "names b"},
		{Selector{MatchLabels: map[string]string{"tier": "gold", "env": "prod"}}, true, "matchLabels env=prod,tier=gold"},
		{Selector{MatchLabels: map[string]string{"env": ""}}, false, `matchLabels env=""`},
		{Selector{Names: []string{"a"}, MatchLabels: map[string]string{"env": "dev"}}, false, "names a matchLabels env=dev"},
		{Selector{MatchExpressions: []Requirement{{Key: "env", Operator: selector.In, Values: []string{"prod", "a\nb"}}}}, true, `matchExpressions env In "a\nb",prod`},
		{Selector{MatchExpressions: []Requirement{{Key: "env", Operator: selector.NotIn, Values: []string{"prod"}}}}, false, "matchExpressions env NotIn prod"},
		{Selector{MatchExpressions: []Requirement{{Key: "gpu", Operator: selector.NotIn, Values: []string{"a"}}}}, true, "matchExpressions gpu NotIn a"},
		{Selector{MatchExpressions: []Requirement{{Key: "gpu", Operator: selector.DoesNotExist}, {Key: "env", Operator: selector.Exists}}}, true, "matchExpressions env Exists; gpu DoesNotExist"},
	}
	for _, tt := range tests {
		if got := tt.selector.Matches("a", env); got != tt.picks {
			t.Errorf("%s: got %v", tt.selector, got)
		}
		if got := tt.selector.String(); got != tt.text {
			t.Errorf("got %s, want %s", got, tt.text)
		}
	}
}

// What people confirm is compared line by line and word by word.
func TestAWordNeverLooksLikeTwo(t *testing.T) {
	for text, want := range map[string]string{
		"a": "a", "secrets/**": "secrets/**", "!~": "!~", "": `""`, "a b": `"a b"`, " a": `" a"`, "a\x7f": `"a\x7f"`,
		"é": `"\u00e9"`, ",a": `",a"`, "a;": `"a;"`,
		"=": `"="`, "a\nb": `"a\nb"`, `"a"`: `"\"a\""`,
	} {
		if got := Word(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestReachIsEmptyWhereNothingCanMatch(t *testing.T) {
	if !pathsOf(t).Reach().Empty() {
		t.Error("a policy of no patterns reaches something")
	}
	root := pathsOf(t, "secrets/**", "a/*.pem").Reach()
	for folder, empty := range map[string]bool{"secrets": false, "a": false, "other": true} {
		if got := root.Into(folder).Empty(); got != empty || root.Empty() {
			t.Errorf("%s: empty is %v", folder, got)
		}
	}
	if !root.Into("a").Into("b").Empty() || root.Into("secrets").Into("b").Empty() {
		t.Error("* reaches below its folder, or ** does not")
	}
}

func TestGroupsOfNamesTheGroupsThatPickACluster(t *testing.T) {
	p, err := Parse([]byte(sealYAML("groups:", "- {name: z, clusters: {all: true}}", "- {name: b, clusters: {names: [edge]}}", "- {name: c}", "paths: []")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "z"}, p.GroupsOf("edge", nil)); diff != "" {
		t.Error(diff)
	}
}

func TestCheckNameTakesWhatIsAFileOnEverySystem(t *testing.T) {
	for _, good := range []string{
		"alice", "Alice", "a", "ci-1", "bob@example.com", "a+b", "a.b_c", "console", "A1Z",
		strings.Repeat("a", MaxName),
	} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{
		"", ".", "..", ".a", "a.", "a/b", `a\b`, "a b", "a:b", "a*", "-a", "é", "con", "NUL", "com1.x",
		"com0", "lpt9", "a\n", strings.Repeat("a", MaxName+1),
	} {
		if CheckName(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAPolicyThatIsADeviceIsNotOpened(t *testing.T) {
	device := fstest.MapFS{File: {Data: []byte(sealYAML("groups: []")), Mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}}
	if _, err := Load(device); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
