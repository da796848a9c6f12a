package filter_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/filter"
)

type item struct {
	name, phase, message string
	tags                 map[string]string
}

var schema = filter.Schema[item]{
	Fields: map[string]filter.Field[item]{
		"name":    {Get: func(i item) string { return i.name }, Fixed: true},
		"phase":   {Get: func(i item) string { return i.phase }, Words: []string{"healthy", "degraded", "failed"}},
		"message": {Get: func(i item) string { return i.message }},
	},
	Names: []func(item) string{func(i item) string { return i.name }},
	Tag:   func(i item, name string) string { return i.tags[name] },
}

var items = []item{
	{"web", "healthy", "", map[string]string{"env": "prod", "example.com/tier": "Front"}},
	{"db", "degraded", "no image: Größe", map[string]string{"env": "dev"}},
	{"web-db", "failed", `said "no"`, map[string]string{"env": "prod", "name": "other"}},
}

func picked(t *testing.T, text string) []string {
	t.Helper()
	f, err := filter.Parse(text, schema)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	names := []string{}
	for _, i := range items {
		if f.Match(i) {
			names = append(names, i.name)
		}
		if f.Match(i) && !f.MatchFixed(i) {
			t.Errorf("%s: %s is picked, and refused by what it keeps", text, i.name)
		}
	}
	return names
}

func TestFilterPicksWhatAllOfItsTermsFit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            {"web", "db", "web-db"},
		"  ":                          {"web", "db", "web-db"},
		"web":                         {"web", "web-db"},
		"WEB":                         {"web", "web-db"},
		"name:web":                    {"web"},
		"Name:Web":                    {"web"},
		"name:web*":                   {"web", "web-db"},
		"name:*b*":                    {"web", "db", "web-db"},
		"name:w*b":                    {"web", "web-db"},
		"name:web*web":                {},
		"name:web,db":                 {"web", "db"},
		"name~b-d":                    {"web-db"},
		"b*d":                         {"web-db"},
		"phase:degraded,failed":       {"db", "web-db"},
		"!phase:healthy":              {"db", "web-db"},
		"-phase:healthy env:prod":     {"web-db"},
		"phase~ed":                    {"db", "web-db"},
		"env:prod !db":                {"web"},
		"env:PROD":                    {"web", "web-db"},
		"zone:":                       {"web", "db", "web-db"},
		"!env:":                       {"web", "db", "web-db"},
		"example.com/tier:front":      {"web"},
		"tag.name:other":              {"web-db"},
		`message~"no image"`:          {"db"},
		`message:"said \"no\""`:       {"web-db"},
		"message~grö":                 {"db"},
		"message~GRÖSSE":              {},
		`message~GRÖ`:                 {"db"},
		`name:"web*"`:                 {},
		`"web"`:                       {"web", "web-db"},
		`message~"no i"mage`:          {"db"},
		"message:*no* phase:degraded": {"db"},
	} {
		if diff := cmp.Diff(want, picked(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestWrongTermIsNamedWithWhatWouldBeRight(t *testing.T) {
	plain := schema
	plain.Tag = nil
	for text, want := range map[string]string{
		"phase:degrded":           "healthy, degraded, failed",
		"env:prod phase:":         "healthy, degraded, failed",
		"colour:red":              "message, name, phase",
		`name~"x`:                 `close it`,
		"!":                       "write a text",
		`""`:                      "write a text",
		"*":                       "write a text",
		"message~":                "write a text",
		strings.Repeat("x ", 33):  "fewer words",
		strings.Repeat("x", 1025): "fewer words",
	} {
		_, err := filter.Parse(text, plain)
		if text == "env:prod phase:" {
			_, err = filter.Parse(text, schema)
		}
		var wrong *filter.Error
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Fix, want) || wrong.Term == "" || wrong.Error() == "" {
			t.Errorf("%.40s: %#v, want a fix with %q", text, err, want)
		}
	}
}

func TestWhatAnItemKeepsIsToldApart(t *testing.T) {
	f, err := filter.Parse("phase:failed name:web", schema)
	if err != nil {
		t.Fatal(err)
	}
	if !f.MatchFixed(items[0]) || f.Match(items[0]) || f.MatchFixed(items[1]) {
		t.Error("the phase of web may change, the name of db never")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", `health:degraded env:prod name~text`, `!a "b c" -d:"e\"f",g*`, "tag.x:y", "phase:f*d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := filter.Parse(text, schema)
		if err != nil {
			if wrong := new(filter.Error); !errors.As(err, &wrong) || wrong.Message == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, i := range items {
			if parsed.Match(i) && !parsed.MatchFixed(i) {
				t.Fatal("picked, and refused by what it keeps")
			}
		}
		if strings.TrimSpace(text) == "" && slices.ContainsFunc(items, func(i item) bool { return !parsed.Match(i) }) {
			t.Fatal("nothing asked for, and something refused")
		}
	})
}
