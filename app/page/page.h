// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page on which answers are looked at: the files of the folder page, in one HTML document with the data.
// Its scripts draw every figure from the documents; nothing is computed for them here.
#include <string>
#include <vector>

#include "base/json.h"

namespace tandem::app {

/// What a page shows: a document as a verb wrote it.
struct PageDocument {
  std::string name;  ///< under which it is shown
  Json document;
};

/// The verbs whose documents have a view, in words: "plan, advise, ...".
std::string page_verbs();

/// Throws InputError at its place if the page has no view of the document, or if it has not what its schema
/// says.
void check_page_document(const Json& document);

/// A self-contained page of checked documents, which asks no network and says the version. Same documents,
/// same bytes. Throws InputError where a file of the page is missing from the data.
std::string page_html(const std::vector<PageDocument>& documents, const std::string& version);

/// The page of `tandem serve`: the same, with what asks for answers and nothing answered yet. Throws as
/// page_html().
std::string live_page_html(const std::string& version);

}  // namespace tandem::app
