package idp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

const (
	maxPages = 10
	maxPage  = 1 << 20
	pageTime = 30 * time.Second
)

// ErrRefused says that a provider showed its login form again, to somebody who had filled it in.
var ErrRefused = errors.New("the login is refused")

// Browser is a person with a browser, who remains signed in as long as it is open.
type Browser struct {
	User     string // what is typed into the login form
	Password string

	ctx    context.Context //nolint:containedctx // the test's, which ends what the browser does
	host   string          // the provider's, whose forms are filled in
	client *http.Client
	page   string
}

// Browser opens a browser for a user, whose password it knows. It believes the provider's certificate, and none but it.
func (p *Provider) Browser(t testing.TB, user string) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(p.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	known, _ := p.users.byName(user)
	return &Browser{
		User: user, Password: known.Password, ctx: t.Context(), host: at.Host,
		client: &http.Client{Jar: jar, Transport: p.transport(), Timeout: pageTime},
	}
}

// Page is the text of the page that was read last, without its markup.
func (b *Browser) Page() string { return b.page }

// Open opens a page and does what a person does until nothing is left to do: signs in, agrees, and follows where that leads,
// which is the page of whoever asked. It returns the last URL, also with an error: [ErrRefused] where user or password is wrong.
func (b *Browser) Open(page string) (landed string, err error) {
	request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return "", err
	}
	landed, signedIn := page, false
	for range maxPages {
		var filled *form
		landed, filled, err = b.read(request, landed)
		if err != nil || filled == nil {
			return landed, err
		}
		if filled.password != "" {
			if signedIn {
				return landed, fmt.Errorf("%w: %s", ErrRefused, b.page)
			}
			signedIn = true
			filled.values.Set(filled.user, b.User)
			filled.values.Set(filled.password, b.Password)
		}
		request, err = http.NewRequestWithContext(b.ctx, http.MethodPost, filled.action, strings.NewReader(filled.values.Encode()))
		if err != nil {
			return landed, err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return landed, fmt.Errorf("the provider still asks after %d pages: %s", maxPages, b.page)
}

// read asks for a page, and returns where it came from, and the form on it if it is the provider's and has one.
func (b *Browser) read(request *http.Request, before string) (landed string, filled *form, err error) {
	response, err := b.client.Do(request)
	if err != nil {
		return before, nil, err
	}
	defer response.Body.Close()
	at := response.Request.URL
	content, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err != nil {
		return at.String(), nil, fmt.Errorf("read %s: %w", at.Redacted(), err)
	}
	tree, err := html.Parse(strings.NewReader(string(content)))
	if err != nil {
		return at.String(), nil, fmt.Errorf("read %s: %w", at.Redacted(), err)
	}
	b.page = text(tree)
	if response.StatusCode >= http.StatusBadRequest {
		return at.String(), nil, fmt.Errorf("%s%s says %s: %s", at.Host, at.Path, response.Status, b.page)
	}
	if at.Host != b.host {
		return at.String(), nil, nil
	}
	filled, err = firstForm(tree, at)
	return at.String(), filled, err
}

// form is what is posted when a person presses a form's button.
type form struct {
	action         string
	user, password string // the names of the inputs for them, where the form signs somebody in
	values         url.Values
}

func firstForm(tree *html.Node, at *url.URL) (*form, error) {
	for node := range tree.Descendants() {
		if node.Type != html.ElementNode || node.Data != "form" || !strings.EqualFold(attribute(node, "method"), "post") {
			continue
		}
		action, err := at.Parse(attribute(node, "action"))
		if err != nil {
			return nil, fmt.Errorf("the form at %s: %w", at.Redacted(), err)
		}
		filled := &form{action: action.String(), values: make(url.Values)}
		for input := range node.Descendants() {
			filled.add(input)
		}
		return filled, nil
	}
	return nil, nil
}

// add reads an input. The last text before the password is the user.
func (f *form) add(input *html.Node) {
	name := attribute(input, "name")
	if input.Type != html.ElementNode || input.Data != "input" || name == "" {
		return
	}
	switch kind := attribute(input, "type"); {
	case kind == "submit" || kind == "checkbox" || kind == "radio":
		return
	case kind == "password":
		f.password = name
	case slices.Contains([]string{"", "text", "email"}, kind) && f.password == "":
		f.user = name
	}
	f.values.Set(name, attribute(input, "value"))
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what a person reads on a page.
func text(tree *html.Node) string {
	var words []string
	for node := range tree.Descendants() {
		if node.Type == html.TextNode && node.Parent.Data != "style" && node.Parent.Data != "script" {
			words = append(words, strings.Fields(node.Data)...)
		}
	}
	return strings.Join(words, " ")
}
