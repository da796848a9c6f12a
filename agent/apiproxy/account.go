package apiproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// People's requests are made with an account that may impersonate, and do nothing else. Whoever had its token could be anybody
// whom the account may impersonate, so that is nobody but the fleet's people: RBAC knows no prefixes, and the agent writes the
// names of those who come into one ClusterRole, when they come. The token is asked for, ends after ten minutes, and is nowhere but
// in memory.

const (
	// tokenLife is how long a token is good: the least that API servers give.
	tokenLife = 10 * time.Minute
	// tokenRest is how much of that is left when the next one is asked for.
	tokenRest = tokenLife / 2
	// peopleRole ends the name of the ClusterRole that names whom the account may impersonate, after the account's own name.
	peopleRole = "-people"
	// maxAdmitted bounds the names in that role, and maxRules its rules as JSON, in bytes: API servers keep objects of some 1.5 MB.
	// When it is full it begins anew, with those who come next.
	maxAdmitted = 2000
	maxRules    = 512 << 10
	// grantLife is how long it is believed that the role is as it was seen.
	grantLife = time.Minute
	// askPatience bounds one look at the role, with the wait for others' looks and until it counts.
	askPatience = 10 * time.Second
	// grantPoll is how often the API server is asked whether the role counts yet: nearly always it does after some milliseconds.
	grantPoll = 20 * time.Millisecond
)

// account is the one that impersonates. It is asked about by the agent's own account.
type account struct {
	name string
	own  dynamic.Interface
	// as makes a client with a token of the account.
	as  func(token string) (dynamic.Interface, error)
	now func() time.Time

	// asking lets one request after another ask for a token; mu guards what was answered.
	asking  turn
	mu      sync.Mutex
	token   string
	expires time.Time
	// granting lets one after another look at the role. mu guards known, the users and groups that it names, and when it was seen so.
	granting turn
	known    map[subject]bool
	seen     time.Time
}

// turn is a lock that a request waits for no longer than somebody waits for the request. It has room for one value, which is there
// while it is taken.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other requests: %w", ctx.Err())
	}
}

func (t turn) leave() { <-t }

// subject is somebody to impersonate, as RBAC has it: a resource, users or groups, and a name.
type subject struct{ resource, name string }

func newAccount(kube *rest.Config, name string, now func() time.Time) (*account, error) {
	kube = rest.CopyConfig(kube)
	kube.QPS = -1 // somebody in many groups costs a question for each, and waits for the answers
	own, err := dynamic.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	as := func(token string) (dynamic.Interface, error) {
		config := rest.AnonymousClientConfig(kube)
		config.BearerToken = token
		return dynamic.NewForConfig(config)
	}
	return &account{
		name: name, own: own, as: as, now: now, known: map[subject]bool{}, asking: make(turn, 1), granting: make(turn, 1),
	}, nil
}

// get is a token that is good. While another cannot be had, the one before is, to its end.
func (a *account) get(ctx context.Context) (string, error) {
	if token, left := a.current(); left > tokenRest {
		return token, nil
	}
	err := a.asking.take(ctx)
	if err == nil {
		defer a.asking.leave()
	}
	token, left := a.current()
	switch {
	case left > tokenRest:
		return token, nil // somebody else has asked meanwhile
	case err == nil:
		err = a.renew(ctx)
	}
	switch {
	case err == nil:
		token, _ = a.current()
		return token, nil
	case left > 0:
		return token, nil
	}
	return "", err
}

func (a *account) current() (token string, left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token, a.expires.Sub(a.now())
}

// renew asks for a token. No answer is repeated in an error: it may hold one.
func (a *account) renew(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, askPatience)
	defer done()
	asked := a.now()
	accounts := a.own.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(Namespace)
	answer, err := accounts.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": a.name},
		"spec": map[string]any{"expirationSeconds": int64(tokenLife.Seconds())},
	}}, metav1.CreateOptions{}, "token")
	if err != nil {
		return fmt.Errorf("ask for a token of the account %s/%s: %w", Namespace, a.name, err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	if token == "" {
		return fmt.Errorf("ask for a token of the account %s/%s: the API server gave none", Namespace, a.name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.expires = token, asked.Add(tokenLife) // by this clock, which the API server's need not agree with
	return nil
}

// admit returns once the account may impersonate somebody whose identity is beyond doubt.
func (a *account) admit(ctx context.Context, who *tunnelapi.Identity) error {
	wanted := []subject{{"users", who.GetUser()}}
	for _, group := range who.GetGroups() {
		wanted = append(wanted, subject{"groups", group})
	}
	if a.knows(wanted) {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, askPatience)
	defer done()
	if err := a.granting.take(ctx); err != nil {
		return fmt.Errorf("let the account %s/%s be %s: %w", Namespace, a.name, who.GetUser(), err)
	}
	defer a.granting.leave()
	if a.knows(wanted) {
		return nil
	}
	names, err := a.grant(ctx, wanted)
	if err != nil {
		return fmt.Errorf("let the account %s/%s be %s: %w", Namespace, a.name, who.GetUser(), err)
	}
	if err := a.effective(ctx, wanted); err != nil {
		return fmt.Errorf("wait until the account %s/%s may be %s: %w", Namespace, a.name, who.GetUser(), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.seen = names, a.now()
	return nil
}

func (a *account) knows(wanted []subject) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now().Sub(a.seen) < grantLife && !slices.ContainsFunc(wanted, func(s subject) bool { return !a.known[s] })
}

// grant adds names to the role, and returns all that it holds then. What it holds that is no name of the fleet's people, somebody
// else has written, and goes.
func (a *account) grant(ctx context.Context, wanted []subject) (names map[subject]bool, err error) {
	roles := a.own.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		role, err := roles.Get(ctx, a.name+peopleRole, metav1.GetOptions{})
		if err != nil {
			return err
		}
		names = peopleOf(role)
		for _, s := range wanted {
			names[s] = true
		}
		rules := rulesFor(names)
		if len(names) > maxAdmitted || !fits(rules) {
			names = make(map[subject]bool, len(wanted))
			for _, s := range wanted {
				names[s] = true
			}
			rules = rulesFor(names)
		}
		if !fits(rules) {
			return fmt.Errorf("the names of one person and their groups are more than the %d bytes of a ClusterRole: "+
				"have the identity provider name fewer groups for that person", maxRules)
		}
		if reflect.DeepEqual(role.Object["rules"], rules) {
			return nil
		}
		role.Object["rules"] = rules
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		return err
	})
	return names, err
}

// peopleOf are those whom a role names.
func peopleOf(role *unstructured.Unstructured) map[subject]bool {
	names := map[subject]bool{}
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
		list, _, _ := unstructured.NestedStringSlice(rule, "resourceNames")
		for _, name := range list {
			if len(resources) == 1 && doubtName(name) == "" {
				names[subject{resources[0], name}] = true
			}
		}
	}
	return names
}

// rulesFor let somebody impersonate these and nobody else.
func rulesFor(names map[subject]bool) any {
	var rules []any
	for _, resource := range []string{"groups", "users"} {
		var list []string
		for s := range names {
			if s.resource == resource {
				list = append(list, s.name)
			}
		}
		if len(list) == 0 {
			continue // without names the rule would be for everybody
		}
		slices.Sort(list)
		all := make([]any, len(list))
		for i, name := range list {
			all[i] = name
		}
		rules = append(rules, map[string]any{
			"apiGroups": []any{""}, "resources": []any{resource}, "resourceNames": all, "verbs": []any{"impersonate"},
		})
	}
	return rules
}

func fits(rules any) bool {
	text, err := json.Marshal(rules)
	return err == nil && len(text) <= maxRules
}

// effective returns when the API server says to the account itself that it may: what RBAC has been told it knows a little later.
func (a *account) effective(ctx context.Context, wanted []subject) error {
	token, err := a.get(ctx)
	if err != nil {
		return err
	}
	client, err := a.as(token)
	if err != nil {
		return err
	}
	reviews := client.Resource(schema.GroupVersionResource{
		Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews",
	})
	tick := time.NewTicker(grantPoll)
	defer tick.Stop()
	for _, s := range wanted {
		for {
			answer, err := reviews.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": map[string]any{
					"resourceAttributes": map[string]any{"verb": "impersonate", "resource": s.resource, "name": s.name},
				},
			}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed"); allowed {
				break
			}
			select {
			case <-ctx.Done():
				return errors.New("the ClusterRole " + a.name + peopleRole + " does not let it: bind the account to it")
			case <-tick.C:
			}
		}
	}
	return nil
}
