package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// ServiceAccounts is what verifies the tokens of a cluster's service accounts, as its agent says.
type ServiceAccounts struct {
	// Issuer is what the tokens name (iss). Others may have the same.
	Issuer string
	// Keys are a JSON Web Key Set.
	Keys []byte
	// Reported is when the agent said so last.
	Reported time.Time
}

// maxReportAge is how long the keys of a cluster count that is not heard from.
const maxReportAge = 24 * time.Hour

// accountsOf are those of a cluster; false: there is nothing to verify with.
func (p *People) accountsOf(cluster string) (ServiceAccounts, bool) {
	said, ok := p.accounts(cluster)
	return said, ok && said.Issuer != "" && p.now().Sub(said.Reported) <= maxReportAge
}

// of are the federations that take tokens of an issuer as access/ writes it, by name.
func (d *Directory) of(issuer string) []federation {
	var all []federation
	for _, name := range slices.Sorted(maps.Keys(d.federations)) {
		if m := d.federations[name]; m.Issuer == issuer {
			all = append(all, m)
		}
	}
	return all
}

// clusters are those whose service accounts a federation takes, sorted.
func (d *Directory) clusters() []string {
	var all []string
	for _, m := range d.federations {
		if cluster, ok := m.Cluster(); ok {
			all = append(all, cluster)
		}
	}
	return sorted(all)
}

// unreported says which clusters have not said yet what verifies their tokens; empty: all have.
func (p *People) unreported(d *Directory) string {
	missing := slices.DeleteFunc(d.clusters(), func(cluster string) bool {
		_, ok := p.accountsOf(cluster)
		return ok
	})
	if len(missing) == 0 {
		return ""
	}
	return "; whether it is of a service account of " + few(missing) + " cannot be told: no agent there has reported the cluster's public keys"
}

// few is a list that may be long.
func few(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// verified is a token as one issuer vouches for it, with the federations that believe this issuer.
type verified struct {
	token       *oidc.Token
	federations []federation
}

// fromFederations is the session of a program; nil and no error: no federation believes the issuer.
func (p *People) fromFederations(ctx context.Context, d *Directory, issuer, raw string) (*principal.Session, error) {
	var by []verified
	var fault error
	taken, audience := d.of(issuer), p.url()
	if len(taken) > 0 && audience != "" {
		token, err := p.verifier.Verify(ctx, raw, issuer, audience)
		if err != nil {
			fault = untold(err, fmt.Sprintf("the issuer of federation %q", taken[0].name))
		} else {
			by = append(by, verified{token, taken})
		}
	}
	// Clusters may have one issuer, and each is believed about tokens that it signed itself.
	var unsigned []string
	ours := false
	for _, cluster := range d.clusters() {
		said, ok := p.accountsOf(cluster)
		if !ok || said.Issuer != issuer {
			continue
		}
		if ours = true; audience == "" {
			break
		}
		switch token, err := p.verifyOf(ctx, raw, &said, audience); {
		case err == nil:
			by = append(by, verified{token, d.of("cluster/" + cluster)})
		case errors.Is(err, oidc.ErrUnsigned):
			unsigned = append(unsigned, cluster)
		default:
			fault = refused(podFix+audience, "the token of a service account of cluster %s is not taken: %s", cluster, err)
		}
	}
	switch {
	case len(taken) == 0 && !ours:
		return nil, nil
	case audience == "":
		return nil, refused("write spec.hub.url into plural.yaml", "this hub does not know its own URL, which tokens for it have to name")
	case len(by) > 0:
		return p.program(by, audience)
	case fault == nil:
		fault = refused(podFix+audience+"; a new key of an API server counts once its agent has read it, within about an hour",
			"the token is not taken: no key that is reported for cluster %s has signed it", few(unsigned))
	}
	return nil, fault
}

// podFix is what to do about a token of a service account.
const podFix = "have the pod project a token of its own cluster, for the audience "

// verifyOf verifies a token with the keys of one cluster alone.
func (p *People) verifyOf(ctx context.Context, raw string, of *ServiceAccounts, audience string) (*oidc.Token, error) {
	keys, err := oidc.ReadKeys(of.Issuer, of.Keys)
	if err != nil {
		return nil, err
	}
	return p.verifier.VerifyWith(ctx, raw, keys, audience)
}

// program is the session for a token that somebody vouches for. Where several do, as clusters with the same keys, they have to take
// it for the same user.
func (p *People) program(by []verified, audience string) (*principal.Session, error) {
	token := by[0].token
	if audiences, several := token.Claims["aud"].([]any); several && len(audiences) != 1 {
		return nil, refused("ask its issuer for one whose only audience is "+audience, "the token is for others than this hub, too")
	}
	if !fleet.SubjectFits(strings.ReplaceAll(token.Subject, " ", "")) {
		return nil, refused("ask its issuer", "the token is about nobody who can be named")
	}
	var found *federation
	for _, v := range by {
		for i := range v.federations {
			switch m := &v.federations[i]; {
			case !m.takes(v.token):
			case found == nil:
				found = m
			case found.User != m.User:
				return nil, refused("give each cluster keys of its own, or both federations the same user",
					"federations %s and %s take this token for different users, because both %s and %s have its key",
					found.name, m.name, found.Issuer, m.Issuer)
			}
		}
	}
	if found == nil {
		return nil, refused("compare the claims of a Federation in access/ with those of the token, which its issuer shows",
			"no federation takes this token: %s", differing(by))
	}
	s := p.newSession(token.Issued, found.Lifetime())
	s.Federation, s.Trust, s.Subject, s.Shown = found.name, found.trust, token.Subject, shown(token.Subject)
	return s, nil
}

// takes says whether a token says all that it must.
func (m *federation) takes(token *oidc.Token) bool { return len(m.wrong(token)) == 0 }

// wrong are the claims that a token does not have as it must.
func (m *federation) wrong(token *oidc.Token) []string {
	var names []string
	for name, want := range m.Claims {
		if got, ok := token.Claims[name].(string); !ok || got != want {
			names = append(names, name)
		}
	}
	// Code of strangers runs for these events, with whatever else of the repository a token speaks of.
	event, _ := token.Claims["event_name"].(string)
	if _, said := m.Claims["event_name"]; !said && strings.HasPrefix(event, "pull_request") {
		names = append(names, "event_name")
	}
	slices.Sort(names)
	return names
}

// differing names the claims, and not what they should be: whoever has any token of the issuer may ask.
func differing(by []verified) string {
	var all []string
	for _, v := range by {
		for i := range v.federations {
			m := &v.federations[i]
			all = append(all, fmt.Sprintf("%s wants another %s", m.name, strings.Join(m.wrong(v.token), ", ")))
		}
	}
	const most = 5
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, "; ")
}
