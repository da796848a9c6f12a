package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Me is whom the hub takes this client for.
func (c *Client) Me(ctx context.Context) (*v1.Me, error) {
	return get[v1.Me](ctx, c, "/v1/me", nil)
}

// PageTicket is a ticket with which a browser logs in to the hub's page as this client. A hub of an earlier release has none: false.
func (c *Client) PageTicket(ctx context.Context) (ticket v1.PageTicket, ok bool, err error) {
	body, err := c.read(ctx, http.MethodPost, c.base.String()+v1.TicketPath)
	refused := new(Error)
	if errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed) {
		return ticket, false, nil
	}
	if err != nil {
		return ticket, false, err
	}
	if json.Unmarshal(body, &ticket) != nil || ticket.Ticket == "" || !strings.HasPrefix(ticket.Path, "/") { // its text may hold a ticket
		return ticket, false, fmt.Errorf("read the ticket of hub %s: it is not what a hub sends", c.Address())
	}
	return ticket, true, nil
}

// LoginProviders are the identity providers with which people log in to the hub. A hub of an earlier release knows none.
func (c *Client) LoginProviders(ctx context.Context) ([]v1.LoginProvider, error) {
	list, err := get[v1.LoginProviderList](ctx, c, "/v1/auth/providers", nil)
	var refused *Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound && !errors.As(err, new(*NoHub)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Exchange is a session for a token of a provider or a federation, and when it ends. The client's own token is not sent.
func (c *Client) Exchange(ctx context.Context, token string) (session string, expires time.Time, err error) {
	form := url.Values{"grant_type": {v1.GrantTokenExchange}, "subject_token": {token}, "subject_token_type": {v1.TokenTypeIDToken}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+v1.ExchangePath, strings.NewReader(form.Encode()))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("ask hub: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	asked := time.Now()
	body, err := c.answer(req)
	if err != nil {
		return "", time.Time{}, err
	}
	var answer v1.ExchangeAnswer
	if json.Unmarshal(body, &answer) != nil || answer.AccessToken == "" { // its text may hold a session
		return "", time.Time{}, fmt.Errorf("read the session of hub %s: it is not what a hub sends", c.Address())
	}
	return answer.AccessToken, asked.Add(time.Duration(answer.ExpiresIn) * time.Second), nil
}
