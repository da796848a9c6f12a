package fleet

import (
	"testing"
	"time"
)

func TestAWindowIsOpenAtItsTimes(t *testing.T) {
	at := func(text string) time.Time {
		moment, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	weekend := Window{Days: []string{"Sat", "Sun"}, From: "22:00", To: "04:00"}
	for _, test := range []struct {
		name   string
		window Window
		at     string // UTC; 2026-07-04 is a Saturday
		want   bool
	}{
		{"before", Window{From: "09:00", To: "17:00"}, "2026-07-04 08:59", false},
		{"at its begin", Window{From: "09:00", To: "17:00"}, "2026-07-04 09:00", true},
		{"at its end", Window{From: "09:00", To: "17:00"}, "2026-07-04 17:00", false},
		{"the whole day", Window{From: "00:00", To: "24:00"}, "2026-07-04 23:59", true},
		{"on another day", Window{Days: []string{"Mon"}, From: "00:00", To: "24:00"}, "2026-07-04 12:00", false},
		{"in the evening of its day", weekend, "2026-07-04 22:00", true},
		{"in the morning after its day", weekend, "2026-07-06 03:59", true},
		{"in the morning of its day", weekend, "2026-07-04 03:00", false},
		{"in the evening of another day", weekend, "2026-07-06 23:00", false},
		{"in its zone", Window{From: "09:00", To: "10:00", Zone: "Europe/Berlin"}, "2026-07-04 07:30", true},
		{"in its zone in winter", Window{From: "09:00", To: "10:00", Zone: "Europe/Berlin"}, "2026-01-03 07:30", false},
		{"the next day in its zone", Window{Days: []string{"Sun"}, From: "00:00", To: "02:00", Zone: "Europe/Berlin"}, "2026-07-04 23:00", true},
	} {
		if got := test.window.Contains(at(test.at)); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	upgrade := Upgrade{Windows: []Window{weekend, {From: "12:00", To: "13:00"}}}
	if !upgrade.Open(at("2026-07-08 12:30")) || upgrade.Open(at("2026-07-08 13:30")) || !(&Upgrade{}).Open(at("2026-07-08 13:30")) {
		t.Error("an upgrade begins outside of its windows")
	}
}

func TestAnUpgradesTimesHaveDefaults(t *testing.T) {
	if (&Upgrade{}).SoakTime() != 0 || (&Upgrade{}).DeadlineTime() != DefaultDeadline {
		t.Error("defaults")
	}
	set := Upgrade{Soak: "1h", Deadline: "5m"}
	if set.SoakTime() != time.Hour || set.DeadlineTime() != 5*time.Minute {
		t.Error("what is written")
	}
}
