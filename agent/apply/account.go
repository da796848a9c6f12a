package apply

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
)

// A service may bring the account that it is applied as, or roles and bindings of it. A removal deletes these last, so that the
// account is there for all else. Which of these takes the account's rights away cannot be told beforehand, so what RBAC does not
// let the account delete of them, and all that outlives an account that somebody else took away, the agent deletes as itself, and
// says so. What else an account that exists may not delete stays, and is an error: somebody may have meant that. So does what a
// webhook or a policy denies.

// accountID is the object of a service account NAMESPACE/NAME.
func accountID(account string) object.ID {
	namespace, name, _ := strings.Cut(account, "/")
	return object.ID{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

// empowers says whether an object may be what the service's account lives by.
func (p *pass) empowers(id object.ID) bool {
	return p.req.Account != "" && (id.Group == rbacv1.GroupName || id == accountID(p.req.Account))
}

// parted tells what goes first, in its order, from what the service's account lives by.
func (p *pass) parted(entries []inventory.Entry) (first, last []inventory.Entry) {
	for _, e := range entries {
		if p.empowers(e.ID) {
			last = append(last, e)
		} else {
			first = append(first, e)
		}
	}
	return first, last
}

// asAccount makes a request as the service's account, and in a removal as the agent itself once that account can do nothing more.
func (p *pass) asAccount(ctx context.Context, t target, request func(target) error) error {
	err := request(t)
	p.contact.note(err)
	if !p.removing || t.account == "" || !apierrors.IsForbidden(err) || object.Denied(err) || !p.outlives(ctx, t.id) {
		return err
	}
	t.account = ""
	err = request(t)
	p.contact.note(err)
	if err == nil {
		p.note("%s goes by the agent's own rights: the service account %s may not delete it any more", t.id, p.req.Account)
		p.options.Log.Warn("object is removed by the agent's own rights: the service's account may not any more",
			"service", p.req.Service, "object", t.id.String(), "account", p.req.Account)
	}
	return err
}

// outlives says whether an object of a removal can have lost the account that was to delete it.
func (p *pass) outlives(ctx context.Context, id object.ID) bool {
	if p.empowers(id) {
		return true
	}
	_, there, err := p.inspect(ctx, accountID(p.req.Account))
	return err == nil && !there
}
