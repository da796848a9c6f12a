package budget_test

import (
	"slices"
	"testing"

	"github.com/pluralsh/plural/internal/budget"
)

func TestBudgetAllows(t *testing.T) {
	tests := []struct {
		text           string
		floor          int
		removed, total int
		want           bool
	}{
		{"", 0, 1, 2, true},
		{"", 0, 1, 1, false},
		{"", 0, 2, 3, false},
		{"50%", budget.ObjectFloor, 4, 4, true},
		{"50%", budget.ObjectFloor, 11, 20, false},
		{"0%", budget.ObjectFloor, 1, 100, false},
		{"100%", 0, 7, 7, true},
		{"3", budget.ObjectFloor, 3, 1000, true},
		{"3", budget.ObjectFloor, 4, 1000, false},
		{"0", 0, 1, 10, false},
		{"0", 0, 0, 10, true},
	}
	for _, test := range tests {
		b, err := budget.Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.AtLeast(test.floor).Allows(test.removed, test.total); got != test.want {
			t.Errorf("%q at least %d: %d of %d = %v, want %v", test.text, test.floor, test.removed, test.total, got, test.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"%", "-1", "101%", "+5", "1.5", "half", "50 %", "99999999999"} {
		if b, err := budget.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v", text, b)
		}
	}
}

func TestTokenNamesASet(t *testing.T) {
	token := budget.Token([]string{"web", "db"})
	if !budget.IsToken(token) || token != budget.Token([]string{"db", "web"}) {
		t.Errorf("token = %q", token)
	}
	if want := "7e18f737311b"; budget.Token([]string{"a", "b"}) != want { // agents and hubs of all versions agree on it
		t.Errorf("token = %q, want %q", budget.Token([]string{"a", "b"}), want)
	}
	for _, other := range [][]string{nil, {"web"}, {"web", "db", "x"}, {"webdb"}} {
		if budget.Token(other) == token {
			t.Errorf("%q has the same token", other)
		}
	}
}

func TestTokenLeavesItsNamesAsTheyAre(t *testing.T) {
	names := []string{"b", "a"}
	budget.Token(names)
	if names[0] != "b" {
		t.Error("they are sorted now")
	}
}

func TestAgreementIsToASetOrToEachOfItsNames(t *testing.T) {
	of := func(names ...string) string { return budget.Token(names) }
	tests := map[string]struct {
		acknowledged []string
		agreed       bool
		left         []string
	}{
		"nothing":               {nil, false, []string{"web", "db", "api"}},
		"the set":               {[]string{of("api", "db", "web")}, true, []string{"web", "db", "api"}},
		"each":                  {[]string{of("api"), of("web"), of("db")}, true, nil},
		"each and more":         {[]string{of("api"), of("x"), of("web"), of("db")}, true, nil},
		"some":                  {[]string{of("db"), of("api")}, false, []string{"web"}},
		"a smaller set":         {[]string{of("web", "db"), of("web")}, false, []string{"db", "api"}},
		"a larger set":          {[]string{of("web", "db", "api", "x")}, false, []string{"web", "db", "api"}},
		"sets that are the set": {[]string{of("web", "db"), of("db", "api")}, false, []string{"web", "db", "api"}},
	}
	for name, test := range tests {
		names := []string{"web", "db", "api"}
		if got := budget.Agreed(test.acknowledged, names); got != test.agreed {
			t.Errorf("%s: agreed %v", name, got)
		}
		if got := budget.Unagreed(test.acknowledged, names); !slices.Equal(got, test.left) {
			t.Errorf("%s: %q are left", name, got)
		}
	}
}

func TestATokenMayBeForOneCluster(t *testing.T) {
	for text, want := range map[string]bool{
		"3f2a9c0d11aa": true, "3f2a9c0d11aa@edge-1": true,
		"3f2a9c0d11aa@": false, "3f2a9c0d11aa@Edge": false, "3f2a9c0d11aa@a@b": false, "3f2a9c0d11aa@-a": false, "3f2a9c0d11a@a": false,
	} {
		if got := budget.IsToken(text); got != want {
			t.Errorf("IsToken(%q) = %v", text, got)
		}
	}
	if got := budget.For("edge", []string{"a", "b@edge", "c@edge-1", "d"}); !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Errorf("agreed to for edge: %q", got)
	}
}
