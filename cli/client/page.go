package client

import (
	"context"
	"fmt"
	"mime"
	"net/http"
)

// HasPage says whether there is something for people's browsers at the hub's address. It is asked without the token.
func (c *Client) HasPage(ctx context.Context) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Address(), nil)
	if err != nil {
		return false, fmt.Errorf("ask for a page: %w", err)
	}
	request.Header.Set("Accept", "text/html")
	request.Header.Set("User-Agent", c.userAgent)
	answer, err := c.http.Do(request)
	if err != nil {
		return false, c.unreachable(ctx, err)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return answer.StatusCode < http.StatusBadRequest && kind == "text/html", answer.Body.Close()
}
