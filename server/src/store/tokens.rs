//! `api_tokens`: who may call the operator's service.

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use super::columns::unsigned;
use super::statement::query;
use super::{Error, Purpose, Store};

/// A token that is to be made. The secret itself never comes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub name: String,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// `viewer`, `operator` or `admin`.
    pub role: String,
    pub created_at: OffsetDateTime,
    pub created_by: String,
    pub expires_at: Option<OffsetDateTime>,
}

/// A token as it stands in Postgres.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub token_id: u64,
    pub name: String,
    pub hash: Vec<u8>,
    pub role: String,
    pub created_at: OffsetDateTime,
    pub created_by: String,
    pub expires_at: Option<OffsetDateTime>,
    pub revoked_at: Option<OffsetDateTime>,
}

impl Store {
    /// Every token, revoked ones too, in the order they were made.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        const DOING: &str = "read the operators' tokens";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT token_id, name, hash, role, created_at, created_by, expires_at, revoked_at \
             FROM api_tokens ORDER BY token_id",
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(token)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }

    /// Makes a token. False when the name is taken.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn create_token(&self, draft: &Draft) -> Result<bool, Error> {
        const DOING: &str = "write an operator's token";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let done = query(
            "INSERT INTO api_tokens (name, hash, role, created_at, created_by, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO NOTHING",
        )
        .bind(&draft.name)
        .bind(&draft.hash[..])
        .bind(&draft.role)
        .bind(draft.created_at)
        .bind(&draft.created_by)
        .bind(draft.expires_at)
        .execute(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))?;
        Ok(done.rows_affected() == 1)
    }

    /// Revokes a token. False when there is no valid one of that name.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn revoke_token(&self, name: &str, at: OffsetDateTime) -> Result<bool, Error> {
        const DOING: &str = "revoke an operator's token";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let done =
            query("UPDATE api_tokens SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL")
                .bind(name)
                .bind(at)
                .execute(&mut *tx)
                .await
                .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))?;
        Ok(done.rows_affected() == 1)
    }
}

fn token(row: &PgRow) -> Result<Token, sqlx::Error> {
    Ok(Token {
        token_id: unsigned(row.try_get("token_id")?),
        name: row.try_get("name")?,
        hash: row.try_get("hash")?,
        role: row.try_get("role")?,
        created_at: row.try_get("created_at")?,
        created_by: row.try_get("created_by")?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}
