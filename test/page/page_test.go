package page

import "testing"

// TestPage has people look at one fleet with one browser, which is what takes time.
func TestPage(t *testing.T) {
	w := newWorld(t)
	w.part(t, "a person who looks around by mouse", byMouse)
	w.part(t, "a person who looks around by keys", byKeys)
	w.part(t, "a person who looks at the objects of a service", objectsOfAService)
	w.part(t, "a person with a small window", narrow)
	w.part(t, "pages are accessible", accessible)
	w.part(t, "pages are accessible to whom they show nothing", accessibleWithout)
	for _, wrong := range w.browser.heard() {
		t.Error(wrong)
	}
}
