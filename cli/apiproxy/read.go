package apiproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

// Get is what the cluster's API answers to a GET of a path, asked as the person: the cluster's own rights decide. A token that the hub
// withdrew meanwhile is replaced once.
func Get(ctx context.Context, tokens *Tokens, path, accept string) ([]byte, error) {
	for again := false; ; again = true {
		token, err := tokens.Token(ctx)
		if err != nil {
			return nil, err
		}
		text, err := tokens.hub.Kube(ctx, tokens.cluster, token, path, accept)
		var answer *client.Error
		if errors.As(err, &answer) && answer.Status == http.StatusUnauthorized && !again {
			tokens.Forget(token)
			continue
		}
		return text, err
	}
}

// Object is a live object, as Get reads it.
func Object(ctx context.Context, tokens *Tokens, at v1.ObjectRef) (map[string]any, error) {
	text, err := Get(ctx, tokens, client.ObjectPath(at), "application/json")
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("read %s %s of cluster %s: %w", at.Resource, at.Name, tokens.cluster, err)
	}
	return object, nil
}
