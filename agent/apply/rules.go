package apply

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
)

// rules are how objects are judged, by service.
type rules struct {
	scripts health.Scripts

	mu     sync.RWMutex // guards what follows
	all    []health.Rule
	own    map[string][]health.Rule
	judges map[string]*health.Judge
	common *health.Judge
}

// SetRules says how a service's objects are judged; "" stands for all services, whose rules come after each one's own. An
// error says which rule cannot be used; those before stay in force.
func (e *Engine) SetRules(service string, list []health.Rule) error {
	affected, err := e.rules.set(service, list)
	if len(affected) > 0 {
		e.seen.Rejudge(affected)
	}
	return err
}

// set returns the kinds that are judged otherwise from now on.
func (r *rules) set(service string, list []health.Rule) (map[schema.GroupKind]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.all
	if service != "" {
		before = r.own[service]
	}
	if slices.Equal(before, list) {
		return nil, nil
	}
	affected := make(map[schema.GroupKind]bool)
	for _, rule := range slices.Concat(before, list) {
		affected[schema.GroupKind{Group: rule.Group, Kind: rule.Kind}] = true
	}
	if service == "" {
		return affected, r.setAll(list)
	}
	return affected, r.setOwn(service, list)
}

func (r *rules) setOwn(service string, list []health.Rule) error {
	if len(list) == 0 {
		delete(r.own, service)
		delete(r.judges, service)
		return nil
	}
	judge, err := health.NewJudge(slices.Concat(list, r.all), r.scripts)
	if err != nil {
		return err
	}
	if r.own == nil {
		r.own, r.judges = make(map[string][]health.Rule), make(map[string]*health.Judge)
	}
	r.own[service], r.judges[service] = list, judge
	return nil
}

func (r *rules) setAll(list []health.Rule) error {
	common, err := health.NewJudge(list, r.scripts)
	if err != nil {
		return err
	}
	judges := make(map[string]*health.Judge, len(r.own))
	for service, own := range r.own {
		if judges[service], err = health.NewJudge(slices.Concat(own, list), r.scripts); err != nil {
			return err
		}
	}
	r.all, r.common, r.judges = list, common, judges
	return nil
}

// judge is how a service's objects are judged; nil is by the built-in rules alone.
func (r *rules) judge(service string) *health.Judge {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if own := r.judges[service]; own != nil {
		return own
	}
	return r.common
}

// ruled says whether any service, or the catalogue, has rules for a kind, whose objects are watched whole then.
func (r *rules) ruled(kind schema.GroupKind) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, judge := range r.judges {
		if judge.Rules(kind) {
			return true
		}
	}
	return r.common.Rules(kind)
}
