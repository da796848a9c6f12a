package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// provider is how one kind of git host speaks.
type provider struct {
	name string
	// authentic says whether a body comes from whom the secret was entered at.
	authentic func(header http.Header, body, secret []byte) bool
	// push says whether the event is one after which refs may be others.
	push func(http.Header) bool
	// urls are those under which the body knows the repository.
	urls func(body []byte) ([]string, error)
}

// one is the value of a header that was sent exactly once: of two, this program and a proxy might look at different
// ones.
func one(header http.Header, name string) (string, bool) {
	values := header.Values(name)
	if len(values) != 1 {
		return "", false
	}
	return values[0], values[0] != ""
}

func sum(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// hexSum says whether a header holds the HMAC-SHA256 of the body, as hex behind a prefix.
func hexSum(name, prefix string) func(http.Header, []byte, []byte) bool {
	return func(header http.Header, body, secret []byte) bool {
		value, ok := one(header, name)
		digits, prefixed := strings.CutPrefix(value, prefix)
		given, err := hex.DecodeString(digits)
		return ok && prefixed && err == nil && hmac.Equal(given, sum(secret, body))
	}
}

func event(name string, pushes ...string) func(http.Header) bool {
	return func(header http.Header) bool {
		value, _ := one(header, name)
		return slices.Contains(pushes, value)
	}
}

func github() provider {
	return provider{
		name:      "github",
		authentic: hexSum("X-Hub-Signature-256", "sha256="),
		push:      event("X-Github-Event", "push", "create", "delete"),
		urls:      repositoryURLs,
	}
}

// gitea is Forgejo too, which sends both names.
func gitea() provider {
	return provider{
		name:      "gitea",
		authentic: hexSum("X-Gitea-Signature", ""),
		push:      event("X-Gitea-Event", "push", "create", "delete"),
		urls:      repositoryURLs,
	}
}

// repositoryURLs reads the shape that GitHub has and Gitea took over.
func repositoryURLs(body []byte) ([]string, error) {
	var event struct {
		Repository struct {
			CloneURL string `json:"clone_url"`
			SSHURL   string `json:"ssh_url"`
			HTMLURL  string `json:"html_url"`
		} `json:"repository"`
	}
	err := json.Unmarshal(body, &event)
	r := event.Repository
	return []string{r.CloneURL, r.SSHURL, r.HTMLURL}, err
}

func gitlab() provider {
	return provider{
		name:      "gitlab",
		authentic: gitlabAuthentic,
		push:      event("X-Gitlab-Event", "Push Hook", "Tag Push Hook", "System Hook"),
		urls: func(body []byte) ([]string, error) {
			type names struct {
				HTTP string `json:"git_http_url"`
				SSH  string `json:"git_ssh_url"`
				Web  string `json:"web_url"`
			}
			var event struct{ Project, Repository names }
			err := json.Unmarshal(body, &event)
			p, r := event.Project, event.Repository
			return []string{p.HTTP, p.SSH, p.Web, r.HTTP, r.SSH}, err
		},
	}
}

// gitlabAuthentic wants the signature where one is sent, as hosts with a signing token do, else the secret itself. The
// time that is signed along is not looked at: what a replay can do is said in the package's comment.
func gitlabAuthentic(header http.Header, body, secret []byte) bool {
	if len(header.Values("Webhook-Signature")) == 0 {
		token, ok := one(header, "X-Gitlab-Token")
		given, want := sha256.Sum256([]byte(token)), sha256.Sum256(secret)
		return ok && subtle.ConstantTimeCompare(given[:], want[:]) == 1
	}
	signatures, ok := one(header, "Webhook-Signature")
	id, hasID := one(header, "Webhook-Id")
	stamp, hasTime := one(header, "Webhook-Timestamp")
	want := sum(signingKey(secret), []byte(id+"."+stamp+"."), body)
	good := 0
	for signature := range strings.FieldsSeq(signatures) {
		encoded, v1 := strings.CutPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(encoded)
		if v1 && err == nil && hmac.Equal(given, want) {
			good++
		}
	}
	return ok && hasID && hasTime && good > 0
}

// signingKey is what a signing token stands for in the Standard Webhooks specification.
func signingKey(secret []byte) []byte {
	encoded, ok := strings.CutPrefix(string(secret), "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return secret
	}
	return key
}

func bitbucket() provider {
	return provider{
		name:      "bitbucket",
		authentic: hexSum("X-Hub-Signature", "sha256="),
		push:      event("X-Event-Key", "repo:push", "repo:refs_changed"),
		urls:      bitbucketURLs,
	}
}

// bitbucketURLs reads Cloud's body, which links to the repository's page, and Data Center's, which links to its files
// in a list, and may name the two addresses for cloning.
func bitbucketURLs(body []byte) ([]string, error) {
	type link struct {
		Href string `json:"href"`
	}
	var event struct {
		Repository struct {
			Slug    string `json:"slug"`
			Project struct {
				Key string `json:"key"`
			} `json:"project"`
			Links struct {
				HTML  link            `json:"html"`
				Clone []link          `json:"clone"`
				Self  json.RawMessage `json:"self"` // an object or a list of them
			} `json:"links"`
		} `json:"repository"`
	}
	err := json.Unmarshal(body, &event)
	r := event.Repository
	urls := []string{r.Links.HTML.Href}
	for _, clone := range r.Links.Clone {
		urls = append(urls, clone.Href)
	}
	var self []link
	if r.Slug == "" || r.Project.Key == "" || json.Unmarshal(r.Links.Self, &self) != nil {
		return urls, err
	}
	for _, page := range self {
		if u, err := url.Parse(page.Href); err == nil && u.Host != "" {
			for _, path := range []string{r.Project.Key + "/" + r.Slug, strings.ToLower(r.Project.Key) + "/" + r.Slug} {
				urls = append(urls, "https://"+u.Host+"/scm/"+path, "ssh://"+u.Host+"/"+path)
			}
		}
	}
	return urls, err
}
