package filter_test

import (
	"errors"
	"fmt"
	"regexp"
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
	At:    "name",
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
		"^web":                        {"web", "web-db"},
		"^WEB$":                       {"web"},
		"!^web":                       {"db"},
		"-^web":                       {"db"},
		"db$":                         {"db", "web-db"},
		"^db|^web$":                   {"web", "db"},
		"w.*b-":                       {"web-db"},
		"^w.*b$":                      {"web", "web-db"},
		"^(web|x)-?[cd]b":             {"web-db"},
		`^\w+$`:                       {"web", "db"},
		"/web-db/":                    {"web-db"},
		"/d.$/ env:prod":              {"web-db"},
		"!/web/":                      {"db"},
		"/web":                        {},
		`"b$"`:                        {},
		`^"web"$`:                     {"web"},
		`^w"."b`:                      {},
		"@web":                        {"web"},
		"@web,DB":                     {"web", "db"},
		"@web*":                       {"web", "web-db"},
		"!@w*":                        {"db"},
		"-l env=prod":                 {"web", "web-db"},
		"-l env==PROD phase:failed":   {"web-db"},
		"-l env=prod,name!=other":     {"web"},
		"-l env=p*":                   {"web", "web-db"},
		"-l name":                     {"web-db"},
		"db -l !name,env":             {"db"},
		`-l env="prod"`:               {"web", "web-db"},
		"-l example.com/tier=Front":   {"web"},
		"-f wb":                       {"web", "web-db"},
		"-f WD":                       {"web-db"},
		"-f bw":                       {},
		"-x":                          {"web", "db", "web-db"},
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
		"phase=failed":            "write phase:failed",
		"!Phase=failed":           "write !Phase:failed",
		"env:prod phase:":         "healthy, degraded, failed",
		"colour:red":              "message, name, phase",
		`name~"x`:                 `close it`,
		"!":                       "write a text",
		`""`:                      "write a text",
		"*":                       "write a text",
		"message~":                "write a text",
		"web[":                    "put it in quotes",
		"/a(/":                    "put it in quotes",
		"/x(y/":                   "put it in quotes",
		"([a-z]x){999}":           "simpler",
		"^a.?b{60} ^b.?c{60}":     "simpler",
		"@":                       "write a text",
		"-l":                      "-l env=prod",
		"-l =x":                   "-l env=prod",
		"-l a b=c:d":              "clusters have tags",
		"-l a=b":                  "clusters have tags",
		"tag.a:b":                 "clusters have tags",
		"-f":                      "-f pymt",
		`-l env="`:                "close it",
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

func TestNothingIsOnAClusterWhereTheListDoesNotSaySo(t *testing.T) {
	plain := schema
	plain.At = ""
	var wrong *filter.Error
	if _, err := filter.Parse("@web", plain); !errors.As(err, &wrong) || wrong.Term != "@web" {
		t.Errorf("%v", err)
	}
}

func TestFlagsBecomeTermsThatEveryHubReads(t *testing.T) {
	for text, want := range map[string]string{
		"env=prod":             `tag.env:"prod"`,
		"env=prod,a!=b*c,d,!e": `tag.env:"prod" !tag.a:"b"*"c" !tag.d: tag.e:`,
		` health==a"b c\"" `:   `tag.health:"ab c\""`,
		"a=b c=d":              "",
		"a b":                  "",
		"":                     "",
		"a=b,":                 "",
		"!":                    "",
		"ä=b":                  "",
	} {
		got, err := filter.Tags(text)
		if wrong := (*filter.Error)(nil); got != want || (err != nil) != (want == "") || err != nil && !errors.As(err, &wrong) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
		if err == nil {
			picked(t, got)
		}
	}
	if got := filter.OneOf("name", []string{"web", `a"b\`, "d*"}); got != `name:"web","a\"b\\","d"*` {
		t.Error(got)
	} else if diff := cmp.Diff([]string{"web", "db"}, picked(t, got)); diff != "" {
		t.Error(diff)
	}
}

// FuzzExpressions holds a word against the regular expression that it is.
func FuzzExpressions(f *testing.F) {
	for _, seed := range [][2]string{
		{"^web-", "web-1"}, {"a|^b$|c.*d", "xcyd"}, {"^a.*b.*$", "ab"}, {"(a|b)c?", "ac"}, {"x(?-i:Y)z", "xyz"}, {"^.*$|()", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, expr, name string) {
		if strings.ContainsFunc(expr+name, func(c rune) bool { return c <= ' ' || c == '"' || c >= 0x7f }) {
			return // of other letters, "K" for one, regular expressions know more forms
		}
		parsed, err := filter.Parse("/"+expr+"/", schema)
		if err != nil || expr == "" {
			return
		}
		if got, want := parsed.Match(item{name: name}), regexp.MustCompile("(?i:"+expr+")").MatchString(name); got != want {
			t.Errorf("/%s/ fits %q: %v", expr, name, got)
		}
	})
}

func BenchmarkExpressions(b *testing.B) {
	names := make([]item, 100_000)
	for i := range names {
		names[i].name = fmt.Sprintf("prod-eu-%05d", i)
	}
	for _, text := range []string{
		"eu-9", "^prod-.*9$", "eu|us", `-\d{4}9`, "^(prod|dev)-(eu|us)-[0-9]+$", "([a-z0-9-]*[a-z]?){3}x",
	} {
		b.Run(text, func(b *testing.B) {
			picks, err := filter.Parse(text, schema)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for i := range names {
					picks.Match(names[i])
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"^(a|b)[c-d]*$ /x+/", "@a,b* -l k=v,!w -f abc", "-l -f", "", `health:degraded env:prod name~text`, `!a "b c" -d:"e\"f",g*`, "tag.x:y", "phase:f*d",
	} {
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
		if strings.Trim(text, " \t\n\r") == "" && slices.ContainsFunc(items, func(i item) bool { return !parsed.Match(i) }) {
			t.Fatal("nothing asked for, and something refused")
		}
	})
}
