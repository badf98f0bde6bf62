package sasl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// errSkew says what to do about clocks.
var errSkew = errors.New("the clocks differ by more than Kerberos allows (clockskew, 5 minutes unless krb5.conf says otherwise): " +
	"on both hosts look at `timedatectl` and `chronyc tracking`, and set the wrong one right")

// remedies are what to do about what a KDC says; gokrb5's errors are text only.
var remedies = []struct {
	texts  []string
	remedy string
}{
	{[]string{"KRB_AP_ERR_SKEW", "clock skew with KDC"}, errSkew.Error()},
	{[]string{"KDC_ERR_C_PRINCIPAL_UNKNOWN"}, "the KDC does not know our principal: compare it with `klist -k` of the keytab, and look for the right realm"},
	{[]string{"KDC_ERR_S_PRINCIPAL_UNKNOWN"}, "the KDC does not know the service: compare dfs.namenode.kerberos.principal with the KDC's, and the host with its full name"},
	{[]string{"KDC_ERR_PREAUTH_FAILED"}, "the keytab's key is not the KDC's: the keytab is from before a change of password; fetch a new one"},
	{[]string{"matching key not found in keytab"}, "the keytab has no key of that type for our principal: see `klist -ke`, and fetch a new one"},
	{[]string{"KDC_ERR_ETYPE_NOSUPP"}, "the KDC knows none of our encryption types: see default_tgs_enctypes in krb5.conf; AES is needed"},
	{[]string{"KDC_ERR_CLIENT_REVOKED", "KDC_ERR_KEY_EXPIRED", "KDC_ERR_NAME_EXP"}, "our principal is locked or has expired at the KDC"},
	{[]string{"KRB_AP_ERR_TKT_EXPIRED", "KDC_ERR_NEVER_VALID"}, "the ticket has expired: run kinit, or give a keytab"},
}

// kdcError explains an error that came from, or on the way to, a KDC. One that may pass matches
// store.ErrUnavailable, any other ErrAuth.
func kdcError(doing string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, r := range remedies {
		for _, sign := range r.texts {
			if strings.Contains(text, sign) {
				return fmt.Errorf("%s: %w: %s (the KDC's words: %w)", doing, ErrAuth, r.remedy, err)
			}
		}
	}
	for _, sign := range []string{"Networking_Error", "communicat", "KDC_ERR_SVC_UNAVAILABLE"} {
		if strings.Contains(text, sign) {
			return fmt.Errorf("%s: no KDC answers: see [realms] in krb5.conf, and whether port 88 is open: %w: %w", doing, store.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrAuth, err)
}
