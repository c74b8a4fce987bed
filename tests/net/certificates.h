// Certificates for tests, made when they are needed.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace kvist::net {

/// What a certificate is to be.
struct Wanted {
  std::string subject_alt_name = "IP:127.0.0.1,DNS:localhost";
  long valid_from_s = -3600;  ///< from now
  long valid_until_s = 3600;
  bool is_authority = false;
};

/// A certificate with its key, as two PEM files in a folder that is removed with it.
class Certificate {
 public:
  /// Signed by `authority`; null: by itself.
  explicit Certificate(const Wanted& wanted, const Certificate* authority = nullptr)
      : folder_(std::filesystem::temp_directory_path() /
                ("kvist_tls_" + std::to_string(::getpid()) + "_" + std::to_string(++made_))),
        key_(EVP_EC_gen("P-256"), &EVP_PKEY_free),
        x509_(X509_new(), &X509_free) {
    std::filesystem::create_directories(folder_);
    X509* const x = x509_.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), made_);
    X509_gmtime_adj(X509_getm_notBefore(x), wanted.valid_from_s);
    X509_gmtime_adj(X509_getm_notAfter(x), wanted.valid_until_s);
    X509_set_pubkey(x, key_.get());
    const std::string name = "kvist test " + std::to_string(made_);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const Certificate& signer = authority != nullptr ? *authority : *this;
    X509_set_issuer_name(x, X509_get_subject_name(signer.x509_.get()));
    add(signer, NID_basic_constraints, wanted.is_authority ? "critical,CA:TRUE" : "CA:FALSE");
    add(signer, NID_subject_key_identifier, "hash");
    if (!wanted.is_authority) add(signer, NID_subject_alt_name, wanted.subject_alt_name);
    if (X509_sign(x, signer.key_.get(), EVP_sha256()) == 0) throw std::runtime_error("cannot sign");
    write();
  }
  ~Certificate() { std::filesystem::remove_all(folder_); }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  [[nodiscard]] std::string certificate() const { return (folder_ / "certificate.pem").string(); }
  [[nodiscard]] std::string key() const { return (folder_ / "key.pem").string(); }
  /// Puts another certificate into this one's files.
  void replace_files_by(const Certificate& other) const {
    const auto overwrite = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(other.key(), key(), overwrite);
    std::filesystem::copy_file(other.certificate(), certificate(), overwrite);
  }

 private:
  void add(const Certificate& signer, int nid, const std::string& value) const {
    X509V3_CTX context;
    X509V3_set_ctx(&context, signer.x509_.get(), x509_.get(), nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    if (extension == nullptr) throw std::runtime_error("no extension from " + value);
    X509_add_ext(x509_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  void write() const {
    FILE* file = std::fopen(certificate().c_str(), "w");
    PEM_write_X509(file, x509_.get());
    std::fclose(file);
    file = std::fopen(key().c_str(), "w");
    PEM_write_PrivateKey(file, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }

  static inline int made_ = 0;
  std::filesystem::path folder_;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> x509_;
};

}  // namespace kvist::net
