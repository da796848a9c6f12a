package idp

import (
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
)

//go:embed client.mjs
var application string

// Application is a program that logs people in at an issuer, as panva's openid-client does: a certified relying party.
type Application struct {
	testing.TB
	child *child
	// At is where it sends a browser.
	At string
}

// Told is what an application learns of somebody: by the ID token, by userinfo, when it shows the code once more, and where it sends
// people who log out.
type Told struct {
	Claims, Info map[string]any
	Again, Leave string
}

// Client says what an application is. Post shows its secret in the form in place of a header.
type Client struct {
	Issuer   string `json:"issuer"`
	ID       string `json:"id"`
	Secret   string `json:"secret"`
	Post     bool   `json:"post"`
	Redirect string `json:"redirect"`
	// Home is where people are sent once they have logged out.
	Home string `json:"home"`
}

// StartApplication begins to log somebody in. It wants what StartNode does.
func StartApplication(t testing.TB, as Client) *Application {
	t.Helper()
	c, err := startChild(needs.Program(t, "node", "Node.js"), modules(t), application)
	if err != nil {
		t.Fatalf("start an application: %v", err)
	}
	t.Cleanup(c.stop)
	a := &Application{TB: t, child: c}
	a.tell(as, &a.At)
	return a
}

// Back says where the browser came back to.
func (a *Application) Back(at string) Told {
	a.Helper()
	var told Told
	a.tell(at, &told)
	return told
}

func (a *Application) tell(what, answer any) {
	a.Helper()
	said, err := a.child.tell(what)
	if err == nil {
		err = json.Unmarshal([]byte(said), answer)
	}
	if err != nil {
		a.Fatalf("the application: %v", err)
	}
}
