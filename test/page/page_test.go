package page

import "testing"

// TestPage has people look at one fleet with one browser, which is what takes time.
func TestPage(t *testing.T) {
	w := newWorld(t)
	for _, part := range []struct {
		name string
		test func(*world)
	}{
		{"a person who looks around by mouse", byMouse},
		{"a person who looks around by keys", byKeys},
		{"a person who looks at the objects of a service", objectsOfAService},
		{"a person who changes a service and takes that back", changes},
		{"a person whose change is overtaken", overtaken},
		{"a person with a small window", narrow},
		{"text of others is text", textOfOthers},
		{"addresses of others are links for http alone", linksOfOthers},
		{"pages of others neither act nor look nor set cookies", pagesOfOthers},
		{"clusters are not reached by the cookie", clustersWithoutCookie},
		{"credentials are in no log and no address", nothingLeaks},
		{"logging in leads nowhere else", noWayOut},
		{"a filter that keeps nobody busy", filterBombs},
		{"the audit log without its role", auditWithoutRole},
		{"there is no terminal", noTerminal},
		{"pages are accessible to whom they show nothing", accessibleWithout},
		{"pages are accessible", accessible},
		{"a tab that is older than the hub", staleTab},
		{"people come back at different times", comesBackByChance},
		{"logins that end in git", endedInGit},
	} {
		w.part(t, part.name, part.test)
	}
	if w.browser.requests == 0 {
		t.Error("no request was seen")
	}
	for _, wrong := range w.browser.heard() {
		t.Error(wrong)
	}
}
